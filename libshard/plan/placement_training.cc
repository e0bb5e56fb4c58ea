// Learns the placement table: multinomial naive Bayes over token ids with Laplace smoothing, each
// group as likely as any other. Tokens that are too rare for a row, or for which there is no room,
// have no score: a table could not distinguish them from tokens that no session has. All sums are
// of whole numbers or in a fixed order.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "libshard/base/text/text.h"
#include "libshard/plan/placement.h"
#include "libshard/strategies/split_mix.h"

namespace moepack {
namespace {

// The counts from which a placement table is learned.

constexpr double kPlacementSmoothing = 0.5;  // added to every count

constexpr uint64_t kLeastTokenCount = 2;  // over all sessions, for a row of its own

// A session to learn from; it borrows the counts.
struct Lesson {
  const TokenCounts* counts;
  uint32_t group;
};

// The tokens of all sessions, by group.
struct GroupTokens {
  size_t groups = 0;
  std::vector<uint32_t> ids;     // ascending
  std::vector<uint64_t> counts;  // [token][group]
  std::vector<uint64_t> totals;  // [group]
  uint64_t symbols = 1;          // tokens that are seen often enough, plus one for all others
  double mean_total = 0;         // of the groups that have tokens

  // REQUIRES: the id exists.
  size_t Row(uint32_t id) const {
    return static_cast<size_t>(std::lower_bound(ids.begin(), ids.end(), id) - ids.begin());
  }
  const uint64_t* CountsOf(size_t row) const { return counts.data() + row * groups; }
  uint64_t Total(size_t row) const {
    return std::accumulate(CountsOf(row), CountsOf(row) + groups, uint64_t{0});
  }
};

// The share of a symbol among a group's tokens. Groups are scaled to the same total first:
// otherwise a token that nobody has seen would favour the group with the fewest tokens. REQUIRES:
// total > 0.
inline double SmoothedShare(uint64_t count, uint64_t total, const GroupTokens& tokens) {
  const double scaled = static_cast<double>(count) * tokens.mean_total / static_cast<double>(total);
  return (scaled + kPlacementSmoothing) /
         (tokens.mean_total + kPlacementSmoothing * static_cast<double>(tokens.symbols));
}

// Tries the placement table on sessions that it has not seen, by leaving each of them out of the
// counts once.

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

// Leaves each session out once. Sessions that are the only ones of their group are skipped, because
// the table would not have the group. `rows` are the ids that have a row in the table, ascending.
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

// Symmetric, so that a score and its negative lose alike.
constexpr double kLargestStep = 127;  // of an int8

std::vector<uint32_t> AllTokenIds(const std::vector<Lesson>& lessons) {
  std::vector<bool> seen;
  for (const Lesson& lesson : lessons) {
    for (const auto& [id, count] : *lesson.counts) {
      if (id >= seen.size()) seen.resize(size_t{id} + 1);
      seen[id] = true;
    }
  }
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; id < seen.size(); ++id) {
    if (seen[id]) ids.push_back(id);
  }
  return ids;
}

GroupTokens AddUpTokens(const std::vector<Lesson>& lessons, size_t groups) {
  GroupTokens tokens;
  tokens.groups = groups;
  tokens.ids = AllTokenIds(lessons);
  tokens.counts.resize(tokens.ids.size() * groups);
  tokens.totals.resize(groups);
  for (const Lesson& lesson : lessons) {
    for (const auto& [id, count] : *lesson.counts) {
      tokens.counts[tokens.Row(id) * groups + lesson.group] += count;
      tokens.totals[lesson.group] += count;
    }
  }
  for (size_t row = 0; row < tokens.ids.size(); ++row) {
    // Each frequent token is a symbol of its own; all others together are one more.
    if (tokens.Total(row) >= kLeastTokenCount) ++tokens.symbols;
  }
  const uint64_t all = std::accumulate(tokens.totals.begin(), tokens.totals.end(), uint64_t{0});
  const auto used = std::count_if(tokens.totals.begin(), tokens.totals.end(),
                                  [](uint64_t total) { return total > 0; });
  tokens.mean_total = static_cast<double>(all) / static_cast<double>(used);
  return tokens;
}

// What the rows of the table are made from: shares of the groups that have sessions.
class ShareScores {
 public:
  ShareScores(const GroupTokens& tokens, const std::vector<uint32_t>& sessions_by_group)
      : tokens_(tokens) {
    for (size_t group = 0; group < sessions_by_group.size(); ++group) {
      if (sessions_by_group[group] > 0) used_.push_back(group);
    }
  }

  // Centred log-probabilities of a symbol with these counts by group; 0 for groups without
  // sessions.
  std::vector<double> Centred(const uint64_t* counts) const {
    std::vector<double> scores(tokens_.groups);
    double sum = 0;
    for (const size_t group : used_) {
      scores[group] = FixedLog(SmoothedShare(counts[group], tokens_.totals[group], tokens_));
      sum += scores[group];
    }
    // Only differences between groups matter, and centred scores make better use of the steps of an
    // int8.
    for (const size_t group : used_) scores[group] -= sum / static_cast<double>(used_.size());
    return scores;
  }

  // How much the symbol says about the group if all groups are equally likely: its part of the
  // mutual information, times the number of groups.
  double Information(const uint64_t* counts) const {
    double sum = 0, information = 0;
    for (const size_t group : used_)
      sum += SmoothedShare(counts[group], tokens_.totals[group], tokens_);
    const double mean = sum / static_cast<double>(used_.size());
    for (const size_t group : used_) {
      const double share = SmoothedShare(counts[group], tokens_.totals[group], tokens_);
      information += share * FixedLog(share / mean);
    }
    return information;
  }

 private:
  const GroupTokens& tokens_;
  std::vector<size_t> used_;
};

// An id takes up to four bytes in a file, its scores one byte per group.
constexpr size_t kIdBytes = 4;

// The rows that are kept, ascending: all that are seen often enough, or the most informative ones.
std::vector<size_t> ChooseRows(const GroupTokens& tokens, const ShareScores& shares,
                               uint64_t token_bytes) {
  std::vector<std::pair<double, size_t>> ranked;
  for (size_t row = 0; row < tokens.ids.size(); ++row) {
    if (tokens.Total(row) < kLeastTokenCount) continue;
    // Negative, so that sorting puts the most informative first and the lower row wins a tie.
    ranked.emplace_back(-shares.Information(tokens.CountsOf(row)), row);
  }
  const size_t room = token_bytes / (kIdBytes + tokens.groups);
  if (ranked.size() > room) {
    std::sort(ranked.begin(), ranked.end());
    ranked.resize(room);
  }
  std::vector<size_t> rows;
  for (const auto& [information, row] : ranked) rows.push_back(row);
  std::sort(rows.begin(), rows.end());
  return rows;
}

TokenScoreTable TokenScoresOf(const GroupTokens& tokens, const ShareScores& shares,
                              uint64_t token_bytes) {
  const std::vector<size_t> rows = ChooseRows(tokens, shares, token_bytes);
  TokenScoreTable table;
  table.left_out = tokens.symbols - 1 - rows.size();
  std::vector<double> scores;
  double largest = 0;
  for (const size_t row : rows) {
    table.ids.push_back(tokens.ids[row]);
    for (const double score : shares.Centred(tokens.CountsOf(row))) {
      scores.push_back(score);
      largest = std::max(largest, std::abs(score));
    }
  }
  // The largest score becomes 127, so that an int8 loses as little as it can.
  table.scale = largest > 0 ? largest / kLargestStep : 1;
  for (const double score : scores)
    table.scores.push_back(static_cast<int8_t>(std::nearbyint(score / table.scale)));
  return table;
}

// The index of each layer's first expert, and the end.
std::vector<size_t> LayerOffsets(const ExpertScores& scores) {
  std::vector<size_t> offsets = {0};
  for (const MoeLayerShape& layer : scores.layers)
    offsets.push_back(offsets.back() + layer.expert_count);
  return offsets;
}

double SumOf(std::span<const float> scores) {
  double sum = 0;
  for (const float score : scores) sum += score;
  return sum;
}

std::optional<PlacementCentroids> CentroidsOf(
    const ExpertScores& training, const std::vector<std::optional<uint32_t>>& group_of_session,
    size_t groups, uint64_t room) {
  const std::vector<size_t> offsets = LayerOffsets(training);
  PlacementCentroids centroids;
  while (centroids.layers < training.layers.size() &&
         // The first layers, because a router sees their choices before the rest of the prompt is
         // computed.
         offsets[centroids.layers + 1] * groups <= room)
    ++centroids.layers;
  if (centroids.layers == 0) return std::nullopt;
  const size_t of_group = offsets[centroids.layers];
  std::vector<double> sums(groups * of_group);
  std::vector<uint64_t> sessions(groups);
  for (size_t s = 0; s < training.sessions.size(); ++s) {
    if (!group_of_session[s]) continue;
    ++sessions[*group_of_session[s]];
    double* const to = sums.data() + *group_of_session[s] * of_group;
    const std::span<const float> all = training.sessions[s].scores;
    for (uint32_t layer = 0; layer < centroids.layers; ++layer) {
      const auto scores = all.subspan(offsets[layer], training.layers[layer].expert_count);
      const double sum = SumOf(scores);
      if (sum <= 0) continue;
      for (size_t e = 0; e < scores.size(); ++e)
        // Square roots keep a few dominant experts from deciding the cosine alone.
        to[offsets[layer] + e] += std::sqrt(scores[e] / sum);
    }
  }
  constexpr double kSteps = 255;
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto count = static_cast<double>(std::max<uint64_t>(sessions[i / of_group], 1));
    centroids.values.push_back(
        static_cast<uint8_t>(std::min(kSteps, std::nearbyint(sums[i] / count * kSteps))));
  }
  return centroids;
}

std::optional<uint32_t> GroupOfSession(const std::vector<std::vector<ExpertIds>>& eligible,
                                       const ExpertScores& scores,
                                       const std::vector<size_t>& offsets,
                                       std::span<const float> session) {
  std::vector<double> captures(eligible.size());
  bool any = false;
  for (size_t layer = 0; layer < scores.layers.size(); ++layer) {
    const auto of_layer = session.subspan(offsets[layer], scores.layers[layer].expert_count);
    const double sum = SumOf(of_layer);
    if (sum <= 0) continue;
    any = true;
    for (size_t group = 0; group < eligible.size(); ++group) {
      double captured = 0;
      for (const uint32_t id : eligible[group][layer]) captured += of_layer[id];
      captures[group] += captured / sum;
    }
  }
  if (!any) return std::nullopt;
  return static_cast<uint32_t>(std::max_element(captures.begin(), captures.end()) -
                               captures.begin());
}

}  // namespace

std::vector<std::optional<uint32_t>> GroupsOfSessions(const Plan& plan,
                                                      const ExpertScores& scores) {
  std::vector<std::vector<ExpertIds>> eligible(plan.groups.size());
  for (size_t group = 0; group < eligible.size(); ++group) {
    for (const MoeLayerShape& layer : scores.layers)
      eligible[group].push_back(Eligible(plan, group, layer.layer));
  }
  const std::vector<size_t> offsets = LayerOffsets(scores);
  std::vector<std::optional<uint32_t>> groups;
  for (const SessionScores& session : scores.sessions)
    groups.push_back(GroupOfSession(eligible, scores, offsets, session.scores));
  return groups;
}

Result<PlacementTable> MakePlacement(const ExpertScores& training,
                                     const std::vector<std::optional<uint32_t>>& group_of_session,
                                     size_t groups, const PlacementOptions& options) {
  PlacementTable table;
  table.prefix_tokens = options.prefix_tokens;
  table.margin = options.margin;
  table.sessions_by_group.resize(groups);
  std::vector<Lesson> lessons;
  for (size_t s = 0; s < training.sessions.size(); ++s) {
    if (training.sessions[s].token_counts.empty() || !group_of_session[s]) continue;
    lessons.push_back({&training.sessions[s].token_counts, *group_of_session[s]});
    ++table.sessions_by_group[*group_of_session[s]];
  }
  if (lessons.empty())
    return Error{Code::kInvalidArgument,
                 "placement: sessions: expected some with token counts, found none",
                 "statistics that this version of profile writes have them"};
  const auto used = std::count_if(table.sessions_by_group.begin(), table.sessions_by_group.end(),
                                  [](uint32_t sessions) { return sessions > 0; });
  // With one group to choose from, there is nothing to place.
  if (used < 2)
    return Error{Code::kInvalidArgument,
                 Cat("placement: groups: expected sessions that suit at least 2, found that group ",
                     lessons[0].group, " suits every session best")};
  const GroupTokens tokens = AddUpTokens(lessons, groups);
  table.tokens =
      TokenScoresOf(tokens, ShareScores(tokens, table.sessions_by_group), options.token_bytes);
  table.trial = TryPlacement(lessons, tokens, table.tokens.ids, table.sessions_by_group, options);
  table.centroids = CentroidsOf(training, group_of_session, groups, options.centroid_bytes);
  return table;
}

std::optional<PlacementTable> PlacementFor(const Plan& plan, const ExpertScores& scores) {
  auto table = MakePlacement(scores, GroupsOfSessions(plan, scores), plan.groups.size(), {});
  if (!table) return std::nullopt;
  return *std::move(table);
}

}  // namespace moepack
