// Order statistics and rank correlation.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace moepack {

// Returns the p-quantile, 0 <= p <= 1, of values in ascending order. It interpolates linearly
// between the two nearest ranks, as numpy.quantile does by default. 0 for no values.
double SortedQuantile(std::span<const double> ascending, double p);
// The same for values in any order.
double Quantile(std::vector<double> values, double p);

double Mean(std::span<const double> values);  // 0 for no values
// The standard error of the mean: sample deviation / sqrt(n); 0 for fewer than two values.
double StandardError(std::span<const double> values);

// Returns Spearman's rank correlation. Equal values share the mean of their ranks. No value if
// there are fewer than two pairs or one side is constant. REQUIRES: same size.
std::optional<double> RankCorrelation(std::span<const double> a, std::span<const double> b);

}  // namespace moepack
