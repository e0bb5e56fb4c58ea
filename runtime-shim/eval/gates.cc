// Compares gates with what was measured.
#include <algorithm>
#include <cstdio>
#include <iterator>

#include "libshard/base/text/text.h"
#include "runtime-shim/eval/summary.h"

namespace moepack::runtime {
namespace {

using Value = std::optional<double>;

Value MeanOf(const std::optional<Damage>& damage) {
  return damage ? Value(damage->mean) : std::nullopt;
}
Value RatioOf(const std::optional<Damage>& damage) {
  return damage ? Value(damage->perplexity_ratio) : std::nullopt;
}

struct Metric {
  const char* name;
  const char* needs;  // without which it is not measured
  Value (*of_row)(const EvalRow& row);
};

constexpr const char* kNeedsReference = "--against SRC";
constexpr const char* kNeedsFull = "a distribution whose groups hold all experts, or --against SRC";
constexpr const char* kNeedsBoth = "a model with all experts, and --against SRC";
constexpr const char* kNeedsGroups = "the groups of a distribution";
constexpr const char* kNeedsLoops = "--generate above 0";

// If there is no unmasked run, the reference replaces it.
const std::optional<Damage>& SplitOf(const EvalRow& row) {
  return row.split ? row.split : row.total;
}

constexpr Metric kMetrics[] = {
    {"kld", kNeedsFull, [](const EvalRow& row) { return MeanOf(SplitOf(row)); }},
    {"ppl_ratio", kNeedsFull, [](const EvalRow& row) { return RatioOf(SplitOf(row)); }},
    {"top1", kNeedsFull,
     [](const EvalRow& row) { return SplitOf(row) ? Value(SplitOf(row)->top1) : std::nullopt; }},
    {"total_kld", kNeedsReference, [](const EvalRow& row) { return MeanOf(row.total); }},
    {"total_ppl_ratio", kNeedsReference, [](const EvalRow& row) { return RatioOf(row.total); }},
    {"capture", kNeedsGroups, [](const EvalRow& row) { return Value(row.capture); }},
    {"loops", kNeedsLoops,
     [](const EvalRow& row) { return row.loops ? Value(row.loops->rate()) : std::nullopt; }},
};

constexpr std::string_view kQuantization = "quant_kld";

Error NotMeasured(const Gate& gate, const char* needs) {
  return {Code::kInvalidArgument, Cat("--gate ", gate.text, ": ", gate.metric, " needs ", needs)};
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

class GateCheck {
 public:
  explicit GateCheck(const Gate& gate) : gate_(gate) {}

  Status Test(const std::string& label, const Value& measured, const char* needs) {
    if (!measured) return NotMeasured(gate_, needs);
    if (!gate_.Holds(*measured)) {
      failures_.push_back(Cat(label, ": ", gate_.metric, ": expected ", gate_.relation, " ",
                              Number(gate_.value), ", found ", Number(*measured)));
    }
    return Ok();
  }
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  const Gate& gate_;
  std::vector<std::string> failures_;
};

// REQUIRES: ParseGate accepted the metric, and it is not kQuantization.
const Metric& MetricOf(const Gate& gate) {
  return *std::find_if(std::begin(kMetrics), std::end(kMetrics),
                       [&](const Metric& metric) { return gate.metric == metric.name; });
}

Status TestRows(const EvalSummary& summary, const Gate& gate, GateCheck& check) {
  if (gate.metric == kQuantization)
    return check.Test("quantization", MeanOf(summary.quantization),
                      summary.reference ? kNeedsBoth : kNeedsReference);
  const Metric& metric = MetricOf(gate);
  const std::optional<EvalRow>& best = summary.best_by_capture;
  if (!best) return check.Test("", std::nullopt, kNeedsGroups);
  if (!gate.each) return check.Test(best->label, metric.of_row(*best), metric.needs);
  for (const EvalRow& row : summary.groups)
    SHARD_CHECK(check.Test(row.label, metric.of_row(row), metric.needs));
  return Ok();
}

// What the gate needs and the run does not have; null if it is measured.
const char* MissingFor(const Gate& gate, const EvalInput& input, const EvalOptions& options) {
  if (gate.metric == kQuantization) {
    if (!input.reference) return kNeedsReference;
    return input.full ? nullptr : kNeedsBoth;
  }
  const std::string_view needs = MetricOf(gate).needs;
  if (needs == kNeedsReference && !input.reference) return kNeedsReference;
  if (input.groups.empty()) return kNeedsGroups;
  return needs == kNeedsLoops && options.generate == 0 ? kNeedsLoops : nullptr;
}

}  // namespace

Status CheckMeasured(std::span<const Gate> gates, const EvalInput& input,
                     const EvalOptions& options) {
  for (const Gate& gate : gates) {
    const char* const missing = MissingFor(gate, input, options);
    if (missing != nullptr) return NotMeasured(gate, missing);
  }
  return Ok();
}

Result<std::vector<std::string>> FailedGates(const EvalSummary& summary,
                                             std::span<const Gate> gates) {
  std::vector<std::string> failures;
  for (const Gate& gate : gates) {
    GateCheck check(gate);
    SHARD_CHECK(TestRows(summary, gate, check));
    failures.insert(failures.end(), check.failures().begin(), check.failures().end());
  }
  return failures;
}

}  // namespace moepack::runtime
