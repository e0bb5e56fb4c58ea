#include "libshard/stats/quantile.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace moepack {
namespace {

std::vector<double> Ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    // Equal values share the mean of their ranks, as Spearman's coefficient wants it.
    const double shared = static_cast<double>(first + end - 1) / 2;
    for (; first < end; ++first) ranks[order[first]] = shared;
  }
  return ranks;
}

}  // namespace

double SortedQuantile(std::span<const double> ascending, double p) {
  if (ascending.empty()) return 0;
  // Linear interpolation between the neighbours, as numpy's default does (Hyndman and Fan 1996,
  // type 7).
  const double place = p * static_cast<double>(ascending.size() - 1);
  const size_t low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, ascending.size() - 1);
  return ascending[low] + (ascending[high] - ascending[low]) * (place - static_cast<double>(low));
}

double Quantile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  return SortedQuantile(values, p);
}

double Mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double StandardError(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double count = static_cast<double>(values.size());
  // The sample variance (divided by n - 1, because the mean is estimated, too) divided by n is that
  // of the mean.
  return std::sqrt(squares / (count - 1) / count);
}

std::optional<double> RankCorrelation(std::span<const double> a, std::span<const double> b) {
  assert(a.size() == b.size());
  if (a.size() < 2) return std::nullopt;
  const std::vector<double> x = Ranks(a), y = Ranks(b);
  // With ties the shortcut formula 1 - 6 sum d^2 / (n^3 - n) is wrong, so this is Pearson's
  // correlation of the ranks. Shared ranks do not change their mean.
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  // Constant values have no order to agree with.
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

}  // namespace moepack
