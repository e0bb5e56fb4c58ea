// The strategy `same`: suitable if nodes are small, or if sessions differ little.
#include "libshard/strategies/session_shares.h"
#include "libshard/strategies/strategy.h"

namespace moepack {

namespace {

// Every group holds the best experts of all sessions.
Result<HeldSets> HoldSame(const StrategyInput& input) {
  const SessionShares shares(*input.scores, InCanonicalOrder(*input.scores, input.sessions));
  // Shares, not scores: a long session must not decide what the others find.
  const std::vector<uint32_t> one_group(shares.session_count());
  SHARD_TRY(const auto sums, SumShares(shares, one_group, 1));
  HeldSets held(input.rooms.size(), std::vector<ExpertIds>(shares.layer_count()));
  for (size_t layer = 0; layer < shares.layer_count(); ++layer) {
    const auto values =
        std::span(sums[0]).subspan(shares.offset(layer), shares.expert_count(layer));
    for (size_t group = 0; group < held.size(); ++group)
      held[group][layer] = BestExperts(values, values, input.rooms[group][layer],
                                       input.pinned[layer], input.barred[layer]);
  }
  return held;
}

}  // namespace

constinit const Strategy kHoldSame = {
    .name = "same",
    .help =
        "the most used experts, the same on every node; the default with statistics of fewer "
        "sessions",
    .hold = HoldSame};

}  // namespace moepack
