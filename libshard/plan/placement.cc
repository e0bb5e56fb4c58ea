#include "libshard/plan/placement.h"

#include <algorithm>
#include <cmath>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// Null for a token without a row.
const int8_t* ScoresOfToken(const TokenScoreTable& table, size_t groups, uint32_t id) {
  const auto found = std::lower_bound(table.ids.begin(), table.ids.end(), id);
  if (found == table.ids.end() || *found != id) return nullptr;
  return table.scores.data() + static_cast<size_t>(found - table.ids.begin()) * groups;
}

// Sets best, second and margin from the scores.
void RankPlaces(PlacementAnswer& answer) {
  std::vector<uint32_t> order;
  for (uint32_t group = 0; group < answer.scores.size(); ++group) {
    if (answer.scores[group]) order.push_back(group);
  }
  // Stable, so the lowest group wins a tie.
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return *answer.scores[a] > *answer.scores[b]; });
  answer.best = order.empty() ? 0 : order[0];
  answer.second = order.size() < 2 ? answer.best : order[1];
  if (order.size() >= 2) answer.margin = *answer.scores[order[0]] - *answer.scores[order[1]];
}

}  // namespace

PlacementAnswer Place(const PlacementTable& table, std::span<const uint32_t> tokens) {
  const size_t groups = table.groups();
  tokens = tokens.first(std::min<size_t>(tokens.size(), table.prefix_tokens));
  // Whole steps are added up, so the order of tokens and groups does not matter.
  std::vector<int64_t> steps(groups);
  PlacementAnswer answer;
  uint64_t known = 0;
  for (const uint32_t id : tokens) {
    const int8_t* row = ScoresOfToken(table.tokens, groups, id);
    if (row == nullptr) continue;
    ++known;
    for (size_t group = 0; group < groups; ++group) steps[group] += row[group];
  }
  answer.tokens = static_cast<uint32_t>(tokens.size());
  if (!tokens.empty())
    answer.known_share = static_cast<double>(known) / static_cast<double>(tokens.size());
  answer.scores.resize(groups);
  for (size_t group = 0; group < groups; ++group) {
    // Nothing was learned about this group, and 0 would rank it above groups that are unlikely.
    if (table.sessions_by_group[group] == 0) continue;
    answer.scores[group] = static_cast<double>(steps[group]) * table.tokens.scale;
  }
  RankPlaces(answer);
  answer.sure = known > 0 && EnoughKnown(known, tokens.size()) && answer.margin >= table.margin;
  return answer;
}

// std::log may differ in the last bit between C libraries, and the table is part of a distribution
// whose digest must not.
double FixedLog(double x) {
  int exponent = 0;
  double fraction = std::frexp(x, &exponent);
  // With the fraction in [sqrt(1/2), sqrt(2)), z is small and the series short.
  constexpr double kHalfRoot = 0.70710678118654752;
  if (fraction < kHalfRoot) {
    fraction *= 2;
    --exponent;
  }
  // ln(f) = 2 artanh(z) with z = (f - 1) / (f + 1); |z| <= 0.172, so z^26 is below 1e-19.
  const double z = (fraction - 1) / (fraction + 1), square = z * z;
  double sum = 0;
  for (int power = 25; power >= 1; power -= 2) sum = sum * square + 1.0 / power;
  constexpr double kLog2 = 0.69314718055994531;
  return 2 * z * sum + exponent * kLog2;
}

}  // namespace moepack
