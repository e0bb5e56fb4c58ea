// Tries the placement table on sessions that it has not seen, by leaving each of them out of the
// counts once.
#include <algorithm>

#include "libshard/plan/placement_steps.h"
#include "libshard/strategies/split_mix.h"

namespace moepack {
namespace {

// Draws entries of a session's counts, as often as they were seen, with replacement: statistics do
// not say how its text began.
std::vector<size_t> DrawPrefix(const TokenCounts& counts, uint32_t prefix_tokens) {
  std::vector<uint64_t> ends;
  uint64_t sum = 0;
  for (const auto& [id, count] : counts) ends.push_back(sum += count);
  std::vector<size_t> drawn;
  // A fixed seed, so that the same statistics give the same trial and the same bytes.
  SplitMix64 random(0);
  for (uint64_t i = 0; i < std::min<uint64_t>(prefix_tokens, sum); ++i) {
    const uint64_t place = random.Next() % sum;
    drawn.push_back(
        static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), place) - ends.begin()));
  }
  return drawn;
}

// The counts without one session.
class WithoutSession {
 public:
  WithoutSession(const GroupTokens& tokens, const std::vector<uint32_t>& rows, const Lesson& lesson)
      : tokens_(tokens), rows_(rows), lesson_(lesson), totals_(tokens.totals) {
    for (const auto& [id, own] : *lesson.counts) totals_[lesson.group] -= own;
  }

  // Adds to `scores` the log-probabilities of one of the session's own tokens. Returns false and
  // adds nothing if a table without the session would have no row for it.
  bool Add(size_t entry, std::vector<double>& scores) const {
    const auto& [id, own] = (*lesson_.counts)[entry];
    const size_t row = tokens_.Row(id);
    if (tokens_.Total(row) - own < kLeastTokenCount) return false;
    if (!std::binary_search(rows_.begin(), rows_.end(), id)) return false;
    for (size_t group = 0; group < scores.size(); ++group) {
      if (totals_[group] == 0) continue;  // a group without sessions
      const uint64_t count = tokens_.CountsOf(row)[group] - (group == lesson_.group ? own : 0);
      scores[group] += FixedLog(SmoothedShare(count, totals_[group], tokens_));
    }
    return true;
  }

 private:
  const GroupTokens& tokens_;
  const std::vector<uint32_t>& rows_;
  const Lesson& lesson_;
  std::vector<uint64_t> totals_;
};

}  // namespace

PlacementTrial TryPlacement(const std::vector<Lesson>& lessons, const GroupTokens& tokens,
                            const std::vector<uint32_t>& rows,
                            const std::vector<uint32_t>& sessions_by_group,
                            const PlacementOptions& options) {
  PlacementTrial trial;
  for (const Lesson& lesson : lessons) {
    // Without its only session the group would have no counts to be recognised by.
    if (sessions_by_group[lesson.group] < 2) continue;
    const WithoutSession rest(tokens, rows, lesson);
    std::vector<double> scores(tokens.groups);
    const std::vector<size_t> prefix = DrawPrefix(*lesson.counts, options.prefix_tokens);
    uint64_t known = 0;
    for (const size_t entry : prefix) known += rest.Add(entry, scores);
    std::vector<std::pair<double, uint32_t>> ranked;
    for (uint32_t group = 0; group < tokens.groups; ++group) {
      if (sessions_by_group[group] > 0) ranked.emplace_back(-scores[group], group);
    }
    std::sort(ranked.begin(), ranked.end());
    const bool right = ranked[0].second == lesson.group;
    const bool sure = known > 0 && EnoughKnown(known, prefix.size()) &&
                      ranked[1].first - ranked[0].first >= options.margin;
    ++trial.sessions;
    trial.right += right;
    trial.sure += sure;
    trial.sure_right += sure && right;
  }
  return trial;
}

}  // namespace moepack
