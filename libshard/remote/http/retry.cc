#include "libshard/remote/http/retry.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>

#include "libshard/base/text/text.h"
#include "libshard/remote/http/libcurl.h"

namespace moepack::remote {
namespace {

// `name=number` among the parameters of a structured field: "\"api\";r=0;t=12".
std::optional<uint64_t> Parameter(std::string_view field, std::string_view name) {
  for (const std::string& part : Split(field, ';')) {
    const size_t start = part.find_first_not_of(" \t");
    if (start == part.npos) continue;
    const std::string_view text = std::string_view(part).substr(start);
    if (text.starts_with(name) && text.substr(name.size()).starts_with('='))
      return ParseUint(text.substr(name.size() + 1));
  }
  return std::nullopt;
}

}  // namespace

std::string_view FieldOf(const HttpFields& fields, std::string_view name) {
  for (const auto& [key, value] : fields) {
    if (key == name) return value;
  }
  return "";
}

bool IsTransient(int status) {
  constexpr int kTransient[] = {408, 429, 500, 502, 503, 504};
  return std::find(std::begin(kTransient), std::end(kTransient), status) != std::end(kTransient);
}

std::optional<RequestsLeft> RequestsLeftOf(const HttpFields& fields) {
  const std::string_view limit = FieldOf(fields, "ratelimit");
  const auto left = Parameter(limit, "r"), window = Parameter(limit, "t");
  if (!left || !window) return std::nullopt;
  return RequestsLeft{*left, Seconds(static_cast<double>(*window))};
}

std::optional<Seconds> AskedPause(const HttpFields& fields) {
  const auto limit = RequestsLeftOf(fields);
  if (limit && limit->left == 0) return limit->window + Seconds(1);
  const std::string after(FieldOf(fields, "retry-after"));
  if (after.empty()) return std::nullopt;
  if (const auto seconds = ParseUint(after)) return Seconds(static_cast<double>(*seconds));
  const time_t date = Curl().getdate(after.c_str(), nullptr);
  if (date < 0) return std::nullopt;
  return Seconds(std::max(0.0, std::difftime(date, std::time(nullptr))));
}

Seconds PauseAfter(const RetryRule& rule, int tried, const HttpFields& fields) {
  thread_local std::minstd_rand random{std::random_device()()};
  const Seconds whole = std::min(rule.most, rule.first * std::exp2(tried - 1));
  const Seconds own = whole * std::uniform_real_distribution<double>(0.5, 1.0)(random);
  return AskedPause(fields).value_or(Seconds(0)) + own;
}

}  // namespace moepack::remote
