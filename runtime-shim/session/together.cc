#include "runtime-shim/session/together.h"

#include <algorithm>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

// Logits that are computed at a time: more gain nothing, and tokens need the memory.
constexpr uint64_t kMostLogitBytes = 64u << 20;
constexpr uint64_t kLogitShare = 8;

}  // namespace

SessionCosts CostsOf(const Model& model) {
  return {model.bytes_per_session(), model.bytes_per_position(), model.bytes_per_token(),
          sizeof(float) * uint64_t{std::max(1u, model.vocabulary())}};
}

uint64_t LeastBytes(const SessionCosts& costs, uint32_t sessions, uint32_t context) {
  return sessions * (costs.session + context * costs.position + costs.token) + 2 * costs.logits;
}

Together FitBytes(const SessionCosts& costs, uint32_t sessions, uint32_t context, uint64_t bytes) {
  const uint64_t least = LeastBytes(costs, sessions, context);
  const uint64_t spare = bytes > least ? bytes - least : 0;
  // Logits are in memory twice (SessionCosts::logits), and `least` has room for one row of them.
  const uint64_t logits = std::min(spare / kLogitShare, kMostLogitBytes);
  const uint64_t tokens = sessions + (spare - 2 * logits) / std::max<uint64_t>(1, costs.token);
  const uint64_t chunk =
      std::clamp<uint64_t>(std::min<uint64_t>(tokens, kMostTogether) / sessions, 1, context);
  return {sessions, static_cast<uint32_t>(chunk), costs.logits + logits};
}

Status CheckBound(const Model& model, uint64_t least, uint32_t context, const MemoryBound& bound) {
  if (least <= bound.limit) return Ok();
  return Error{
      Code::kInvalidArgument,
      Cat(model.weights().path, ": --memory: expected at least ", least,
          " bytes for what runs side by side in a context of ", context, ", found ", bound.limit),
      "give more, or a smaller --context"};
}

Result<Together> FitSessions(const Model& model, uint32_t context, const MemoryBound& bound) {
  const SessionCosts costs = CostsOf(model);
  const uint64_t least = LeastBytes(costs, 1, context);
  SHARD_CHECK(CheckBound(model, least, context, bound));
  const uint64_t bytes = std::max(least, std::min(bound.wanted, bound.limit));
  // Without logits, so the first guess may be too large.
  const uint64_t one = costs.session + context * (costs.position + costs.token);
  uint64_t fit =
      std::min<uint64_t>(bytes / std::max<uint64_t>(1, one), kMostTogether / std::max(1u, context));
  for (; fit > 1; --fit) {
    const Together together = FitBytes(costs, static_cast<uint32_t>(fit), context, bytes);
    if (together.chunk == context) return together;
  }
  return FitBytes(costs, 1, context, bytes);
}

}  // namespace moepack::runtime
