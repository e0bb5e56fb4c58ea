#include "tools/reports/runs/refit_report.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "tools/base/progress.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

// "0.1234": an error as a share of the target.
std::string ErrorText(double error) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(4) << error;
  return text.str();
}

// Rows take at most half of the memory (runtime-shim/refit/refit.cc); the rest of them goes to
// disk.
uint64_t RowsInMemory(const RefitNeeds& needs) {
  return std::min(needs.estimate.row_bytes, needs.memory / 2);
}

}  // namespace

std::string RefitLine(const runtime::LayerOutcome& outcome, bool again) {
  const RefitOutcome& result = outcome.outcome;
  std::string line = Cat("layer ", result.layer, ", group ", result.group, ": error ",
                         ErrorText(result.error_before), " -> ", ErrorText(result.error_after));
  for (const runtime::StepOutcome& step : outcome.steps)
    line += Cat("; ", step.step, " ", ErrorText(step.error), step.kept ? "" : " (dropped)");
  if (result.neurons_moved > 0) line += Cat("; ", Plural(result.neurons_moved, "neuron"), " moved");
  if (!result.accepted) line += "; left as it was";
  if (outcome.without_room) line += "; too little free memory on the GPU, the CPU helped";
  return line + (again ? "; done before" : "");
}

std::string TakenLines(const std::vector<runtime::CalibrationBucket>& buckets) {
  std::vector<std::string> lines;
  for (const runtime::CalibrationBucket& bucket : buckets) {
    if (bucket.sessions == bucket.of_sessions && bucket.in_part == 0) continue;
    lines.push_back(
        Cat("taken from ", bucket.name.empty() ? "the text" : Quoted(bucket.name), ": ",
            FormatCount(bucket.sessions), " of ", Plural(bucket.of_sessions, "session"),
            bucket.in_part > 0 ? Cat(" (", FormatCount(bucket.in_part), " in part)") : "", ", ",
            FormatCount(bucket.tokens), " of ", Plural(bucket.of_tokens, "token")));
  }
  return Join(lines, "\n");
}

std::string RefitNeedsLine(const RefitNeeds& needs) {
  return Cat("would take about ", FormatElapsed(needs.estimate.products / needs.rate), " for ",
             Plural(needs.tokens, "token"));
}

std::string RefitNeedsText(const RefitNeeds& needs) {
  const runtime::RefitEstimate& estimate = needs.estimate;
  const std::string taken = TakenLines(needs.buckets);
  return Cat(taken, taken.empty() ? "" : "\n", "tokens: ", FormatCount(needs.tokens), " of about ",
             FormatCount(estimate.tokens_needed),
             " that are needed\nmemory: ", FormatBytes(RowsInMemory(needs) + estimate.matrix_bytes),
             " of activations and matrices, ", FormatBytes(estimate.weight_bytes), " of weights; ",
             FormatBytes(estimate.row_bytes - RowsInMemory(needs)), " on disk\nridge regression: ",
             estimate.joint ? "of all experts at once" : "expert by expert", "\ntime: about ",
             FormatElapsed(estimate.products / needs.rate),
             needs.machines > 1 ? Cat(" on this machine; about ",
                                      FormatElapsed(needs.products_of_one / needs.rate), " on ",
                                      needs.machines, " like it (--task)")
                                : "",
             "\n");
}

Json RefitNeedsJson(const RefitNeeds& needs) {
  const runtime::RefitEstimate& estimate = needs.estimate;
  Json buckets = Json::array();
  for (const runtime::CalibrationBucket& bucket : needs.buckets)
    buckets.push_back({{"bucket", bucket.name},
                       {"sessions", bucket.sessions},
                       {"of_sessions", bucket.of_sessions},
                       {"in_part", bucket.in_part},
                       {"tokens", bucket.tokens},
                       {"of_tokens", bucket.of_tokens}});
  return {{"dry_run", true},
          {"buckets", std::move(buckets)},
          {"tokens", needs.tokens},
          {"tokens_needed", estimate.tokens_needed},
          {"memory_bytes", RowsInMemory(needs) + estimate.matrix_bytes},
          {"weight_bytes", estimate.weight_bytes},
          {"disk_bytes", estimate.row_bytes - RowsInMemory(needs)},
          {"joint_ridge", estimate.joint},
          {"multiplications", estimate.products},
          {"seconds", estimate.products / needs.rate},
          {"machines", needs.machines},
          {"seconds_of_one",
           (needs.machines > 1 ? needs.products_of_one : estimate.products) / needs.rate}};
}

std::string RefittedLine(const RefitRecord& record) {
  const auto accepted = static_cast<uint64_t>(
      std::count_if(record.outcomes.begin(), record.outcomes.end(),
                    [](const RefitOutcome& outcome) { return outcome.accepted; }));
  return Cat("the refit of ", accepted, " of ", Plural(record.outcomes.size(), "group"),
             " was accepted, counted layer by layer");
}

std::string RefitText(const RefitRecord& record) {
  Table table({">layer", ">group", ">error before", ">after", ">neurons moved", ">least tokens",
               "refitted"});
  for (const RefitOutcome& outcome : record.outcomes) {
    const auto least = std::min_element(outcome.slot_tokens.begin(), outcome.slot_tokens.end());
    table.Row({Cat(outcome.layer), Cat(outcome.group), ErrorText(outcome.error_before),
               ErrorText(outcome.error_after), FormatCount(outcome.neurons_moved),
               least == outcome.slot_tokens.end() ? "-" : FormatCount(*least),
               outcome.accepted ? "yes" : "no"});
  }
  return table.Render();
}

}  // namespace moepack::cli
