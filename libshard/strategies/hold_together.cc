// The strategy `coactivation`.
#include <algorithm>
#include <numeric>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/strategies/parts.h"
#include "libshard/strategies/session_shares.h"
#include "libshard/strategies/strategy.h"

namespace moepack {
namespace {

// A sweep of swaps compares all pairs of experts, so only small layers can afford many starts.
constexpr size_t kCuts = 4;       // starts for each layer
constexpr size_t kManyCuts = 24;  // if a layer is small
constexpr size_t kSmallLayer = 64;
// 4,096 experts have fewer than 2^23 pairs, so the sum over all of them stays below 2^63.
constexpr int64_t kMostWeight = int64_t{1} << 40;

Status CheckPairs(const ExpertScores& scores) {
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    const uint64_t expected = PairCount(scores.layers[i].expert_count);
    if (i < scores.co_selection.size() && scores.co_selection[i].size() == expected) continue;
    return Error{
        Code::kInvalidArgument,
        Cat("statistics: layer ", scores.layers[i].layer,
            ": pairs of experts that were chosen together: expected ", expected, ", found ",
            i < scores.co_selection.size() ? scores.co_selection[i].size() : 0),
        "statistics of `moepack profile` have them, and so have traces; use --partition "
        "ranked, session or same"};
  }
  return Ok();
}

// The number of experts for each part, as close to equal as the rooms allow.
std::vector<size_t> PartSizes(const std::vector<size_t>& rooms, size_t experts) {
  std::vector<size_t> sizes(rooms.size());
  for (size_t given = 0; given < experts; ++given) {
    size_t to = rooms.size();
    for (size_t part = 0; part < rooms.size(); ++part) {
      if (sizes[part] < rooms[part] && (to == rooms.size() || sizes[part] < sizes[to])) to = part;
    }
    ++sizes[to];
  }
  return sizes;
}

class Layer {
 public:
  Layer(const StrategyInput& input, const std::vector<double>& values, size_t layer)
      : input_(input), values_(values), layer_(layer) {}

  std::vector<ExpertIds> Cut() const {
    std::vector<size_t> rooms;
    for (const auto& of_group : input_.rooms)
      rooms.push_back(of_group[layer_] - input_.pinned[layer_].size());
    const size_t room = std::accumulate(rooms.begin(), rooms.end(), size_t{0});
    const ExpertIds ids =
        Difference(BestExperts(values_, values_, room + input_.pinned[layer_].size(),
                               input_.pinned[layer_], input_.barred[layer_]),
                   input_.pinned[layer_]);
    PairWeights weights(ids.size());
    for (size_t a = 0; a < ids.size(); ++a) {
      for (size_t b = 0; b < a; ++b) weights.Set(a, b, Weight(ids[a], ids[b]));
    }
    const size_t restarts = ids.size() <= kSmallLayer ? kManyCuts : kCuts;
    // The seed depends on the layer alone, so the order in which threads take layers does not
    // matter.
    const std::vector<uint32_t> part =
        CutBalanced(weights, PartSizes(rooms, ids.size()), restarts, input_.seed + layer_);
    std::vector<ExpertIds> parts(rooms.size());
    for (size_t i = 0; i < ids.size(); ++i) parts[part[i]].push_back(ids[i]);
    return parts;
  }

  // Adds the pinned experts and, up to the room of the group, those chosen most often together with
  // its own.
  ExpertIds FillUp(const ExpertIds& own, size_t group) const {
    std::vector<double> together(values_.size());
    for (uint32_t id = 0; id < together.size(); ++id) {
      int64_t sum = 0;
      for (const uint32_t other : own) sum += other == id ? 0 : Weight(id, other);
      together[id] = static_cast<double>(sum);
    }
    return BestExperts(together, values_, input_.rooms[group][layer_],
                       Union(own, input_.pinned[layer_]), input_.barred[layer_]);
  }

 private:
  // Capped so that sums do not overflow; no count of real statistics is that large.
  int64_t Weight(uint32_t a, uint32_t b) const {
    const std::vector<uint64_t>& pairs = input_.scores->co_selection[layer_];
    const uint64_t count = pairs[PairIndex(std::min(a, b), std::max(a, b),
                                           input_.scores->layers[layer_].expert_count)];
    return static_cast<int64_t>(std::min<uint64_t>(count, kMostWeight));
  }

  const StrategyInput& input_;
  const std::vector<double>& values_;
  size_t layer_;
};

// Experts that tokens choose together stay together: each layer's experts are cut into parts of
// equal size so that the fewest pairs are cut, and sessions decide which parts of different layers
// belong to one group. The remaining room is filled with the experts chosen most often with the
// group's own. kInvalidArgument if the scores have no pairs.
Result<HeldSets> HoldTogether(const StrategyInput& input) {
  SHARD_CHECK(CheckPairs(*input.scores));
  const std::vector<size_t> sessions = InCanonicalOrder(*input.scores, input.sessions);
  const SessionShares shares(*input.scores, sessions);
  const std::vector<double> sums = SumOfScores(*input.scores, sessions);
  const auto values_of = [&](size_t layer) {
    const auto first = sums.begin() + static_cast<std::ptrdiff_t>(shares.offset(layer));
    return std::vector<double>(first, first + shares.expert_count(layer));
  };
  std::vector<std::vector<ExpertIds>> parts(shares.layer_count());
  const auto cut = [&](size_t layer) -> Status {
    const std::vector<double> values = values_of(layer);
    parts[layer] = Layer(input, values, layer).Cut();
    return CheckInterrupt();
  };
  SHARD_CHECK(ParallelFor(shares.layer_count(), 0, cut));
  // Every layer was cut by itself, so which part is called group 0 is arbitrary until here.
  SHARD_CHECK(MatchParts(shares, parts));
  HeldSets held(input.rooms.size(), std::vector<ExpertIds>(shares.layer_count()));
  for (size_t layer = 0; layer < shares.layer_count(); ++layer) {
    const std::vector<double> values = values_of(layer);
    for (size_t group = 0; group < held.size(); ++group)
      held[group][layer] = Layer(input, values, layer).FillUp(parts[layer][group], group);
  }
  return held;
}

}  // namespace

constinit const Strategy kHoldTogether = {.name = "coactivation",
                                          .reads_pairs = true,
                                          .random_starts = true,
                                          .help = "experts that tokens choose together",
                                          .hold = HoldTogether};

}  // namespace moepack
