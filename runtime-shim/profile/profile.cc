#include "runtime-shim/profile/profile.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/stats/session_digest.h"
#include "runtime-shim/profile/windows.h"

namespace moepack::runtime {
namespace {

uint32_t Likeliest(std::span<const float> logits) {
  return static_cast<uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

class Profiler {
 public:
  Profiler(const ProfileOptions& options, std::span<Session* const> sessions,
           StatisticsCollector& collector)
      : options_(options), sessions_(sessions), collector_(collector), next_(sessions.size()) {}

  Status Run(const TokenSession& text) {
    SHARD_CHECK(SelectFree());
    collector_.StartSession(text.name, text.bucket, options_.executor, options_.precision,
                            SessionDigest(text.tokens));
    for (Window& window : SplitWindows(text.tokens, options_.context, options_.bos, false)) {
      SHARD_CHECK(SelectFree());
      collector_.StartWindow();
      collector_.Feeding(Phase::kPrefill, window.tokens);
      open_.push_back({&text, std::move(window.tokens)});
    }
    if (options_.generate == 0 || open_.empty()) return Ok();
    const size_t last = open_.size() - 1;
    SHARD_CHECK(RunOpen());
    return Decode(text, last);
  }

  // Runs the open windows side by side, a chunk of each at a time.
  Status RunOpen() {
    const std::vector<Open> open = std::move(open_);
    open_.clear();
    for (size_t i = 0; i < open.size(); ++i) sessions_[i]->Rewind(0);
    size_t longest = 0;
    for (const Open& window : open) longest = std::max(longest, window.tokens.size());
    for (size_t first = 0; first < longest; first += options_.chunk) {
      Status done = RunChunks(open, first);
      if (!done) return std::move(done).error().Within(NameOf(open));
    }
    return Ok();
  }

 private:
  struct Open {
    const TokenSession* text;
    std::vector<uint32_t> tokens;
  };

  // Selects a slot without an open window.
  Status SelectFree() {
    if (open_.size() == sessions_.size()) SHARD_CHECK(RunOpen());
    collector_.Select(open_.size());
    return Ok();
  }

  static std::string NameOf(std::span<const Open> open) {
    const std::string first = Cat("session ", Quoted(open.front().text->name));
    if (open.front().text == open.back().text) return first;
    return Cat(first, " to ", Quoted(open.back().text->name));
  }

  Status RunChunks(std::span<const Open> open, size_t first) {
    SHARD_CHECK(CheckInterrupt());
    std::vector<Part> parts;
    std::vector<size_t> slots;
    uint64_t count = 0;
    for (size_t i = 0; i < open.size(); ++i) {
      const std::span<const uint32_t> tokens = open[i].tokens;
      if (first >= tokens.size()) continue;
      const size_t size = std::min<size_t>(tokens.size() - first, options_.chunk);
      parts.push_back({sessions_[i], tokens.subspan(first, size)});
      slots.push_back(i);
      count += size;
    }
    SHARD_CHECK(
        parts.front().session->FeedTogether(parts, LogitsOf::kLast, [&](const LogitsSlice& slice) {
          for (size_t i = 0; i < slots.size(); ++i) next_[slots[i]] = Likeliest(slice.parts[i]);
          return Ok();
        }));
    if (options_.advance) options_.advance(count);
    return Ok();
  }

  // Continues the window in this slot, which was the last one.
  Status Decode(const TokenSession& text, size_t slot) {
    collector_.Select(slot);
    for (uint32_t i = 0; i < options_.generate; ++i) {
      if (options_.is_end && options_.is_end(next_[slot])) break;
      SHARD_CHECK(CheckInterrupt());
      const uint32_t token = next_[slot];
      collector_.Feeding(Phase::kDecode, std::span(&token, 1));
      auto logits = sessions_[slot]->Feed(std::span(&token, 1), LogitsOf::kLast);
      if (!logits) return std::move(logits).error().Within(Cat("session ", Quoted(text.name)));
      next_[slot] = Likeliest(*logits);
      if (options_.advance) options_.advance(1);
    }
    return Ok();
  }

  const ProfileOptions& options_;
  std::span<Session* const> sessions_;
  StatisticsCollector& collector_;
  std::vector<Open> open_;      // window i in session i
  std::vector<uint32_t> next_;  // the likeliest token after each window
};

}  // namespace

Status ProfileTexts(std::span<const TokenSession> texts, const ProfileOptions& options,
                    std::span<Session* const> sessions, StatisticsCollector& collector) {
  Profiler profiler(options, sessions, collector);
  for (const TokenSession& text : texts) SHARD_CHECK(profiler.Run(text));
  return profiler.RunOpen();
}

}  // namespace moepack::runtime
