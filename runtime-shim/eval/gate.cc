#include "runtime-shim/eval/gate.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

constexpr std::string_view kEach = "each.";

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::optional<double> ParseNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

}  // namespace

bool Gate::Holds(double measured) const {
  if (relation == "<=") return measured <= value;
  if (relation == ">=") return measured >= value;
  if (relation == "<") return measured < value;
  return measured > value;
}

Result<Gate> ParseGate(std::string_view text) {
  const auto wrong = [&](const std::string& expected) {
    return Error{Code::kInvalidArgument,
                 Cat("--gate: expected ", expected, ", found ", Quoted(text)),
                 "write a gate as kld<=0.15"};
  };
  const size_t at = text.find_first_of("<>");
  if (at == std::string_view::npos) return wrong("<=, >=, < or >");
  const size_t width = at + 1 < text.size() && text[at + 1] == '=' ? 2 : 1;
  Gate gate;
  gate.text = text;
  gate.relation = text.substr(at, width);
  std::string_view metric = Trimmed(text.substr(0, at));
  if (metric.starts_with(kEach)) {
    gate.each = true;
    metric.remove_prefix(kEach.size());
  }
  gate.metric = metric;
  if (std::find(kGateMetrics.begin(), kGateMetrics.end(), metric) == kGateMetrics.end()) {
    const std::vector<std::string> names(kGateMetrics.begin(), kGateMetrics.end());
    Error error = wrong(Cat("one of ", moepack::Join(names, ", ")));
    const std::string meant = DidYouMean(metric, names);
    if (!meant.empty()) error.hint = meant;
    return error;
  }
  const std::optional<double> value = ParseNumber(Trimmed(text.substr(at + width)));
  if (!value) return wrong("a number");
  gate.value = *value;
  return gate;
}

}  // namespace moepack::runtime
