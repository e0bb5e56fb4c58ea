#include "tools/reports/planning/plan_comparison.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

uint64_t LargestNode(const PartBytes& bytes) {
  uint64_t largest = 0;
  for (size_t group = 0; group < bytes.groups.size(); ++group)
    largest = std::max(largest, bytes.Node(group));
  return largest;
}

std::string EligibleText(const Plan& plan) {
  CountRange range = CountNodeExperts(plan, 0).eligible;
  for (size_t group = 1; group < plan.groups.size(); ++group) {
    const CountRange one = CountNodeExperts(plan, group).eligible;
    range = {std::min(range.least, one.least), std::max(range.most, one.most)};
  }
  return range.least == range.most ? std::to_string(range.most) : Cat(range.least, "-", range.most);
}

}  // namespace

std::string ComparisonTable(const std::vector<ComparedPlan>& plans) {
  const bool expected = !plans.empty() && plans.front().plan.expectation.has_value();
  std::vector<std::string> headings = {">groups", ">eligible", ">largest node"};
  if (expected)
    headings.insert(headings.end(),
                    {">capture", ">P5", ">if contiguous", ">if the same", ">if its own"});
  Table table(headings);
  for (const ComparedPlan& compared : plans) {
    table.Cell(compared.plan.groups.size());
    table.Cell(EligibleText(compared.plan));
    table.Cell(compared.bytes ? FormatBytes(LargestNode(*compared.bytes)) : "-");
    if (!expected) continue;
    const PlanExpectation& expectation = *compared.plan.expectation;
    table.Cell(FormatShare(expectation.overall.mean));
    table.Cell(FormatShare(expectation.overall.p5));
    for (const CaptureSummary* other :
         {&expectation.contiguous, &expectation.same, &expectation.oracle})
      table.Cell(FormatShare(other->mean));
  }
  return table.Render();
}

std::string ComparisonLine(const std::vector<ComparedPlan>& plans) {
  std::vector<std::string> groups, nodes;
  for (const ComparedPlan& compared : plans) {
    groups.push_back(std::to_string(compared.plan.groups.size()));
    nodes.push_back(compared.bytes ? FormatBytes(LargestNode(*compared.bytes)) : "-");
  }
  return Cat("compared ", Join(groups, ", "), " groups; the largest nodes have ",
             Join(nodes, ", "));
}

Json ComparisonJson(const std::vector<ComparedPlan>& plans) {
  Json out = Json::array();
  for (const ComparedPlan& compared : plans) {
    Json entry = Json::object();
    entry["groups"] = compared.plan.groups.size();
    entry["scheme"] = compared.plan.scheme;
    entry["nodes"] = NodesToJson(compared.plan, compared.bytes ? &*compared.bytes : nullptr);
    if (compared.plan.expectation)
      entry["expectation"] = ExpectationToJson(*compared.plan.expectation);
    entry["warnings"] = compared.warnings;
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace moepack::cli
