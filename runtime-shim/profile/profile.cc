#include "runtime-shim/profile/profile.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "runtime-shim/profile/windows.h"

namespace moepack::runtime {
namespace {

class Profiler {
 public:
  Profiler(const ProfileOptions& options, Session& session, StatisticsCollector& collector)
      : options_(options), session_(session), collector_(collector) {}

  // Runs `tokens` and returns the likeliest next token.
  Result<uint32_t> Feed(Phase phase, std::span<const uint32_t> tokens) {
    SHARD_CHECK(CheckInterrupt());
    collector_.Feeding(phase, tokens);
    SHARD_TRY(const std::vector<float> logits, session_.Feed(tokens, LogitsOf::kLast));
    if (options_.advance) options_.advance(tokens.size());
    return static_cast<uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

  Status Prefill(std::span<const uint32_t> window) {
    session_.Rewind(0);
    collector_.StartWindow();
    while (!window.empty()) {
      const auto chunk = window.first(std::min<size_t>(window.size(), options_.chunk));
      window = window.subspan(chunk.size());
      SHARD_TRY(next_, Feed(Phase::kPrefill, chunk));
    }
    return Ok();
  }

  Status Decode() {
    for (uint32_t i = 0; i < options_.generate; ++i) {
      if (options_.is_end && options_.is_end(next_)) break;
      const uint32_t token = next_;
      SHARD_TRY(next_, Feed(Phase::kDecode, std::span(&token, 1)));
    }
    return Ok();
  }

 private:
  const ProfileOptions& options_;
  Session& session_;
  StatisticsCollector& collector_;
  uint32_t next_ = 0;
};

}  // namespace

Status ProfileTokens(std::span<const uint32_t> tokens, const ProfileOptions& options,
                     Session& session, StatisticsCollector& collector) {
  Profiler profiler(options, session, collector);
  for (const Window& window : SplitWindows(tokens, options.context, options.bos, false)) {
    SHARD_CHECK(profiler.Prefill(window.tokens));
  }
  return profiler.Decode();
}

}  // namespace moepack::runtime
