// Compares a divergence with a well-known cost: that of llama.cpp's quantizations.
#pragma once

#include <span>
#include <string>

namespace moepack::runtime {

// A quantization and its mean KL divergence in nats per token.
struct YardstickMark {
  const char* name;  // with its article: "a Q8_0"
  double divergence;
};
// Ascending.
std::span<const YardstickMark> YardstickMarks();

// How the answer begins for a divergence beyond all marks.
inline constexpr const char* kWorseThan = "worse than ";
// Returns "about a Q3_K_M": the type whose mean KL divergence is nearest on a logarithmic scale; at
// less than half of the first mark "less than a Q8_0", and a quarter beyond the last one "worse
// than an IQ1_M". The figures are llama.cpp's for Llama-3-8B, and the same type may cost other
// models more or less.
std::string Yardstick(double mean_divergence);

}  // namespace moepack::runtime
