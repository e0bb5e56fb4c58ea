#include "tools/reports/runs/masking_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest.h"
#include "tools/base/output.h"

namespace moepack::cli {
namespace {

using runtime::CheckedNode;

const char* StatusOf(const CheckedNode& node) {
  if (!node.skipped.empty()) return "skipped";
  return node.passed() ? "ok" : "FAILED";
}

const char* KindOf(const CheckedNode& node) {
  return node.kind == CheckedNode::Kind::kAssembled ? "assembled" : "bundles";
}

std::string NameOf(const CheckedNode& node) {
  return Cat("group ", node.group, node.overlay ? " with overlay" : "",
             node.kind == CheckedNode::Kind::kAssembled ? ", assembled" : "");
}

std::string Padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string DifferenceText(const runtime::LogitsDifference& difference) {
  if (difference.same_bits) return "same bits";
  return Cat("logits differ by ", Scientific(difference.relative), " of the largest");
}

// REQUIRES: a node that failed.
std::string FailureLine(const CheckedNode& node) {
  std::string text = Cat("the logits part at position ", *node.findings.failure);
  if (node.where)
    text += Cat("; first in layer ", node.where->layer, ", position ", node.where->position, ": ",
                Shown(node.where->what));
  return text;
}

Json NodeJson(const CheckedNode& node) {
  const runtime::SideBySide::Findings& found = node.findings;
  Json document = {{"group", node.group},
                   {"kind", KindOf(node)},
                   {"overlay", node.overlay},
                   {"status", !node.skipped.empty() ? "skipped"
                              : node.passed()       ? "passed"
                                                    : "failed"}};
  if (!node.skipped.empty()) {
    document["reason"] = node.skipped;
    return document;
  }
  document.update({{"positions", found.positions},
                   {"same_bits", found.worst.same_bits},
                   {"largest_difference", found.worst.largest},
                   {"relative_difference", found.worst.relative},
                   {"first_position", found.failure ? Json(*found.failure) : Json(nullptr)},
                   {"layer", node.where ? Json(node.where->layer) : Json(nullptr)},
                   {"what", node.where ? Json(node.where->what) : Json(nullptr)},
                   {"eligible", node.eligible},
                   {"used", node.used}});
  return document;
}

}  // namespace

std::string CheckedNodeText(const CheckedNode& node) {
  const std::string start = Cat(Padded(StatusOf(node), 9), Padded(NameOf(node), 34));
  if (!node.skipped.empty()) return Cat(start, Shown(node.skipped), "\n");
  return Cat(start, Plural(node.findings.positions, "position"), ", ",
             DifferenceText(node.findings.worst), "; ", node.used, " of ",
             Plural(node.eligible, "expert"), " took part\n",
             node.failed() ? Cat("  ", FailureLine(node), "\n") : "");
}

std::string CheckSummary(const runtime::CheckReport& report) {
  const auto skipped = static_cast<uint64_t>(
      std::count_if(report.nodes.begin(), report.nodes.end(),
                    [](const CheckedNode& node) { return !node.skipped.empty(); }));
  const uint64_t run = report.nodes.size() - skipped, failed = report.failures();
  const std::string bound =
      report.tolerance == 0 ? "the same bits" : Cat("within ", Scientific(report.tolerance));
  std::string text = failed > 0 ? Cat("check failed: ", failed, " of ", Plural(run, "node"))
                                : Cat("check passed: ", Plural(run, "node"));
  const std::string other =
      report.of_refit ? "the same node loaded from its bundles" : "the masked model";
  text += Cat(failed > 0 ? " do not give the logits of " : " beside ", other, " (", bound, ")");
  if (skipped > 0) text += Cat(", ", skipped, " skipped");
  return text + "\n";
}

CiReport CheckCi(const std::string& distribution, const runtime::CheckReport& report) {
  using manifest::Severity;
  std::string totals = CheckSummary(report);
  totals.pop_back();
  CiReport ci{"check", distribution, Cat(distribution, "/", manifest::kManifestFile), {}, totals};
  for (const CheckedNode& node : report.nodes) {
    const std::string name = NameOf(node);
    ci.cases.rules.push_back(name);
    if (!node.skipped.empty())
      ci.cases.findings.push_back({Severity::kNote, name, "", "", "skipped: " + node.skipped});
    if (node.failed())
      ci.cases.findings.push_back({Severity::kError, name, "", "", FailureLine(node)});
  }
  return ci;
}

Json CheckJson(const std::string& distribution, const std::string& against,
               const runtime::CheckReport& report) {
  Json nodes = Json::array();
  for (const CheckedNode& node : report.nodes) nodes.push_back(NodeJson(node));
  return {
      {"distribution", distribution}, {"against", against.empty() ? Json(nullptr) : Json(against)},
      {"device", report.executor},    {"tolerance", report.tolerance},
      {"tokens", report.tokens},      {"passed", report.failures() == 0},
      {"nodes", std::move(nodes)},    {"notes", report.notes}};
}

}  // namespace moepack::cli
