#include "runtime-shim/eval/continuations.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "runtime-shim/eval/token_scores.h"

namespace moepack::runtime {
namespace {

// Runs the tokens of each continuation that has any.
template <class TokensOf>
Status Step(std::vector<Continuation>& all, const TokensOf& tokens_of) {
  SHARD_CHECK(CheckInterrupt());
  std::vector<Continuation*> going;
  std::vector<Part> parts;
  for (Continuation& one : all) {
    const std::span<const uint32_t> tokens = tokens_of(one);
    if (tokens.empty()) continue;
    going.push_back(&one);
    parts.push_back({one.run->session.get(), tokens});
  }
  if (parts.empty()) return Ok();
  return parts.front().session->FeedTogether(parts, LogitsOf::kLast, [&](const LogitsSlice& slice) {
    for (size_t i = 0; i < going.size(); ++i) going[i]->next = TokenScores(slice.parts[i]).best();
    return Ok();
  });
}

Status ReadPrompts(std::vector<Continuation>& all, uint32_t chunk) {
  size_t longest = 0;
  for (const Continuation& one : all) longest = std::max(longest, one.prompt.size());
  for (size_t first = 0; first < longest; first += chunk) {
    SHARD_CHECK(Step(all, [&](const Continuation& one) {
      const size_t from = std::min(first, one.prompt.size());
      return one.prompt.subspan(from, std::min<size_t>(chunk, one.prompt.size() - from));
    }));
  }
  return Ok();
}

// Adds the likeliest token to each continuation that has not ended; false when all have.
bool AddTokens(std::vector<Continuation>& all, const ContinueOptions& options) {
  bool going = false;
  for (Continuation& one : all) {
    if (one.ended) continue;
    one.ended = options.is_end && options.is_end(one.next);
    if (one.ended) continue;
    one.generated.push_back(one.next);
    one.ended = one.generated.size() == options.generate;
    going = going || !one.ended;
  }
  return going;
}

}  // namespace

Status ContinueAll(std::vector<Continuation>& all, const ContinueOptions& options) {
  for (Continuation& one : all) {
    if (one.run->observer) one.run->observer->Rest(true);
    one.run->session->Rewind(0);
  }
  SHARD_CHECK(ReadPrompts(all, options.chunk));
  while (AddTokens(all, options)) {
    SHARD_CHECK(Step(all, [](const Continuation& one) {
      return one.ended ? std::span<const uint32_t>() : std::span(&one.generated.back(), 1);
    }));
  }
  for (Continuation& one : all) {
    if (one.run->observer) one.run->observer->Rest(false);
  }
  return Ok();
}

}  // namespace moepack::runtime
