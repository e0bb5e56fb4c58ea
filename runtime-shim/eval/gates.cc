// Compares gates with what was measured.
#include <cstdio>

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
  const char* missing;  // why it may be missing
  Value (*of_row)(const EvalRow& row);
};

constexpr const char* kNeedsReference = "--against SRC";
constexpr const char* kNeedsFull = "a distribution whose groups hold all experts, or --against SRC";

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
    {"capture", "groups", [](const EvalRow& row) { return Value(row.capture); }},
    {"loops", "a loop test (--generate N)",
     [](const EvalRow& row) { return row.loops ? Value(row.loops->rate()) : std::nullopt; }},
};

constexpr std::string_view kQuantization = "quant_kld";

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

class GateCheck {
 public:
  explicit GateCheck(const Gate& gate) : gate_(gate) {}

  Status Test(const std::string& label, const Value& measured, const char* missing) {
    if (!measured)
      return Error{Code::kInvalidArgument, Cat("--gate ", gate_.text, ": expected ", missing,
                                               ", found nothing to measure it by")};
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

Status TestRows(const EvalSummary& summary, const Gate& gate, GateCheck& check) {
  if (gate.metric == kQuantization)
    return check.Test("quantization", MeanOf(summary.quantization), kNeedsReference);
  for (const Metric& metric : kMetrics) {
    if (gate.metric != metric.name) continue;
    const std::optional<EvalRow>& best = summary.best_by_capture;
    if (!best) return check.Test("", std::nullopt, "groups");
    if (!gate.each) return check.Test(best->label, metric.of_row(*best), metric.missing);
    for (const EvalRow& row : summary.groups) {
      SHARD_CHECK(check.Test(row.label, metric.of_row(row), metric.missing));
    }
  }
  return Ok();
}

}  // namespace

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
