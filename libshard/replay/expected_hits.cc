#include "libshard/replay/expected_hits.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace moepack {
namespace {

// The probability that one of the last `tokens` tokens chose an expert that each of them chooses
// with probability `q`.
double HeldAfter(double tokens, double q) {
  // 1 - (1 - q)^tokens; log1p and expm1 keep its digits when q is small.
  return q >= 1 ? 1 : -std::expm1(tokens * std::log1p(-q));
}

double ExpertsAfter(double tokens, const std::vector<double>& q) {
  return std::accumulate(q.begin(), q.end(), 0.0,
                         [&](double sum, double each) { return sum + HeldAfter(tokens, each); });
}

// The number of tokens that together choose `slots` different experts, by bisection. REQUIRES: more
// than `slots` experts have a probability.
double TokensThatFill(double slots, const std::vector<double>& q) {
  double low = 0, high = 1;
  // Experts of tiny probability may never fill the slots within what doubles can count.
  while (ExpertsAfter(high, q) < slots && high < 1e15) high *= 2;
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    (ExpertsAfter(middle, q) < slots ? low : high) = middle;
  }
  return high;
}

// The share of the choices that hit.
double LruShare(const std::vector<double>& q, uint32_t slots) {
  const double sum = std::accumulate(q.begin(), q.end(), 0.0);
  const auto used = std::count_if(q.begin(), q.end(), [](double each) { return each > 0; });
  if (static_cast<uint64_t>(used) <= slots) return 1;
  const double tokens = TokensThatFill(slots, q);
  double hits = 0;
  for (const double each : q) hits += each * HeldAfter(tokens, each);
  return hits / sum;
}

}  // namespace

ExpectedHits ExpectHits(const ExpertScores& scores, const std::vector<uint32_t>& slots) {
  const std::vector<double> sums = SumOfScores(scores);
  uint64_t tokens = 0;
  bool known = scores.basis == ScoreBasis::kCount;
  for (const SessionScores& session : scores.sessions) {
    tokens += session.tokens;
    known = known && session.tokens > 0;
  }
  ExpectedHits expected;
  double all = 0;
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(scores.Offset(i));
    std::vector<double> layer(begin, begin + scores.layers[i].expert_count);
    std::sort(layer.begin(), layer.end(), std::greater<>());
    const double sum = std::accumulate(layer.begin(), layer.end(), 0.0);
    if (sum <= 0) continue;
    const size_t held = std::min<size_t>(slots[i], layer.size());
    const auto held_end = layer.begin() + static_cast<std::ptrdiff_t>(held);
    all += sum;
    expected.fixed += std::accumulate(layer.begin(), held_end, 0.0);
    const double scale =
        known ? 1 / static_cast<double>(tokens) : std::max(1u, scores.layers[i].top_k) / sum;
    for (double& value : layer) value = std::min(1.0, value * scale);
    expected.lru += sum * LruShare(layer, slots[i]);
  }
  if (all <= 0) return {};
  return {expected.fixed / all, expected.lru / all};
}

}  // namespace moepack
