// Means over sessions with their standard errors, and the width of an interval that may be looked
// at several times.
#pragma once

#include <cstdint>
#include <span>

namespace moepack::runtime {

// The mean of a session over its tokens.
struct Sample {
  double value = 0;
  uint64_t tokens = 0;
};

struct Estimate {
  double mean = 0;   // over tokens
  double error = 0;  // its standard error
};

// The mean over all tokens. Tokens of a session resemble each other, so the sampling units are
// sessions: the error is that of a ratio of sums over clusters (Cochran, Sampling Techniques, 1977,
// 6.4),
//   sqrt(m / (m - 1) sum n_i^2 (v_i - mean)^2) / sum n_i   for m sessions of n_i tokens.
// 0 for fewer than two sessions.
Estimate EstimateMean(std::span<const Sample> samples);

// How many standard errors to both sides of a mean hold the true one with 95 % at every one of
// `looks` looks: the quantile of Student's t with sessions - 1 degrees of freedom at 1 - 0.05 / (2
// looks) (Bonferroni). An experiment that stops at one of these looks, for whatever reason, still
// has 95 %. With fewer than two sessions no interval is valid: infinity.
double IntervalFactor(uint32_t looks, uint64_t sessions);

}  // namespace moepack::runtime
