// Compares a divergence with what people know: the cost of llama.cpp's quantizations.
#pragma once

#include <string>

namespace moepack::runtime {

// "about a Q3_K_M": the type whose mean KL divergence lies nearest, on a logarithmic scale.
// "less than a Q8_0" and "more than an IQ1_M" beyond twice the ends. The figures are llama.cpp's
// for Llama-3-8B; the same type may cost other models more or less.
std::string Yardstick(double mean_divergence);

}  // namespace moepack::runtime
