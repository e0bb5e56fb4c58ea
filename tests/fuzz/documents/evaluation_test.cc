// EvalFromJson: the output of `eval --json`, and the page that `report` makes from it.
#include <nlohmann/json.hpp>

#include "tests/fuzz/target.h"
#include "tests/tools/page/page_sample.h"
#include "tools/page/page.h"
#include "tools/reports/runs/eval_read.h"

namespace evaluation_target {

using moepack::Json;

constexpr const char* kWhere = "damaged/evaluation.json";

std::vector<std::string> Seeds() {
  moepack::cli::EvalReport report = moepack::cli::SomeEvaluation();
  std::vector<std::string> seeds = {moepack::cli::EvalJson(report).dump()};
  report.summary.sessions[0].placed = moepack::PlacementAnswer{{}, 1, 0, 2.5, true, 32, 0.75};
  report.summary.sessions[0].by_table = 1;
  report.summary.reference = report.summary.full;
  report.summary.groups[0].total = report.summary.groups[0].split;
  report.quality.reset();
  seeds.push_back(moepack::cli::EvalJson(report).dump());
  return seeds;
}

std::string Check(std::string_view input) {
  const auto document = moepack::ParseJson(kWhere, input);
  if (!document) return fuzz::ErrorProblem(document.error(), kWhere);
  const auto read = moepack::cli::EvalFromJson(kWhere, *document);
  if (!read) return fuzz::ErrorProblem(read.error(), kWhere);
  const Json written = moepack::cli::EvalJson(*read);
  const auto again = moepack::cli::EvalFromJson(kWhere, written);
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  if (moepack::cli::EvalJson(*again) != written) return "another evaluation after writing";
  moepack::cli::PageInputs inputs;
  inputs.evaluations = {{"evaluation.json", *read}};
  const std::string page = moepack::cli::ReportPage(inputs);
  return page.ends_with("</html>\n") && page.find("<script") == page.npos ? "" : "a broken page";
}

constexpr fuzz::Target kTarget{Check, Seeds};

}  // namespace evaluation_target

FUZZ_JSON_TARGET(FuzzEvaluation, evaluation_target::kTarget)
