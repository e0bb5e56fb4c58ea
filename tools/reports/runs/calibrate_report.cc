#include "tools/reports/runs/calibrate_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "tools/base/progress.h"
#include "tools/reports/runs/refit_report.h"

namespace moepack::cli {
namespace calibrate_report {
namespace {

// Rows take at most half of the memory (runtime-shim/calibrate/calibrate.cc).
uint64_t RowsInMemory(const CalibrateNeeds& needs) {
  return std::min(needs.estimate.row_bytes, needs.memory / 2);
}

// "3 with few tokens, 1 that feedback did not help": the matrices without feedback.
std::string Reasons(const CalibratedFigures& sum) {
  std::vector<std::string> reasons;
  const auto add = [&](uint64_t count, const char* reason) {
    if (count > 0) reasons.push_back(Cat(FormatCount(count), " ", reason));
  };
  add(sum.few_tokens, "with few tokens");
  add(sum.worse, "that feedback did not help on held-out text");
  add(sum.unseen, "that no token reaches");
  return Join(reasons, ", ");
}

std::string Matrices(uint64_t count) {
  return Cat(FormatCount(count), count == 1 ? " matrix" : " matrices");
}

std::string Line(const std::string& name, const CalibratedFigures& figures, bool again) {
  if (figures.matrices == 0) return Cat(name, ": no matrix to encode");
  const std::string reasons = Reasons(figures);
  return Cat(name, ": ", FormatCount(figures.accepted), " of ", Matrices(figures.matrices),
             " with feedback", reasons.empty() ? "" : Cat(" (", reasons, ")"),
             again ? "; done before" : "");
}

}  // namespace
}  // namespace calibrate_report

std::string CalibratedLine(const CalibratedRecord& record, const CalibratedOutcome& outcome,
                           bool again) {
  const bool output = outcome.layer == record.layer_count;
  return calibrate_report::Line(output ? "output" : Cat("layer ", outcome.layer), outcome, again);
}

std::string CalibratedGroupLine(uint32_t group, const CalibratedOutcome& outcome, bool again) {
  return calibrate_report::Line(Cat("group ", group, ", layer ", outcome.layer), outcome, again);
}

std::string CalibrateNeedsText(const CalibrateNeeds& needs) {
  using namespace calibrate_report;
  const runtime::CalibrateEstimate& estimate = needs.estimate;
  const std::string taken = TakenLines(needs.buckets);
  return Cat(taken, taken.empty() ? "" : "\n", "calibration: ", FormatCount(needs.tokens),
             " tokens (about ", FormatCount(estimate.tokens_needed), " are enough)",
             needs.groups == 0 ? "" : Cat(" through the model and ", Plural(needs.groups, "group")),
             "; ", FormatBytes(RowsInMemory(needs) + estimate.matrix_bytes),
             " of activations and matrices, ", FormatBytes(estimate.weight_bytes),
             " of weights in memory, ", FormatBytes(estimate.row_bytes - RowsInMemory(needs)),
             " on disk; about ", FormatElapsed(estimate.seconds),
             needs.machines > 1
                 ? Cat(" on this machine; about ", FormatElapsed(estimate.seconds_of_one), " on ",
                       needs.machines, " like it (--task)")
                 : "",
             "\n");
}

Json CalibrateNeedsJson(const CalibrateNeeds& needs) {
  using namespace calibrate_report;
  const runtime::CalibrateEstimate& estimate = needs.estimate;
  Json buckets = Json::array();
  for (const runtime::CalibrationBucket& bucket : needs.buckets)
    buckets.push_back({{"bucket", bucket.name},
                       {"sessions", bucket.sessions},
                       {"of_sessions", bucket.of_sessions},
                       {"in_part", bucket.in_part},
                       {"tokens", bucket.tokens},
                       {"of_tokens", bucket.of_tokens}});
  return {{"buckets", std::move(buckets)},
          {"tokens", needs.tokens},
          {"tokens_needed", estimate.tokens_needed},
          {"memory_bytes", RowsInMemory(needs) + estimate.matrix_bytes},
          {"weight_bytes", estimate.weight_bytes},
          {"disk_bytes", estimate.row_bytes - RowsInMemory(needs)},
          {"seconds", estimate.seconds},
          {"machines", needs.machines},
          {"seconds_of_one", estimate.seconds_of_one}};
}

std::string CalibratedSummary(const CalibratedRecord& record, double seconds) {
  using namespace calibrate_report;
  const CalibratedFigures sum = record.sum();
  const std::string reasons = Reasons(sum);
  return Cat("calibrated on ", Plural(record.tokens(), "token"),
             seconds > 0 ? Cat(" in ", FormatElapsed(seconds)) : "", ": ",
             FormatCount(sum.accepted), " of ", Matrices(sum.matrices), " encoded with feedback",
             reasons.empty() ? "" : Cat("; without it: ", reasons));
}

Json CalibratedSummaryJson(const CalibratedRecord& record, double seconds) {
  using namespace calibrate_report;
  const CalibratedFigures sum = record.sum();
  return {{"tokens", record.tokens()}, {"matrices", sum.matrices},
          {"accepted", sum.accepted},  {"few_tokens", sum.few_tokens},
          {"worse", sum.worse},        {"unseen", sum.unseen},
          {"seconds", seconds}};
}

}  // namespace moepack::cli
