// Divergence in units that people know: what llama.cpp's quantizations cost.
#pragma once

#include <string>

namespace runtime {

// "about a Q3_K_M": the type whose mean KL divergence lies nearest, on a logarithmic scale.
// "less than a Q8_0" and "more than an IQ1_M" beyond twice the ends. The figures are llama.cpp's
// for Llama-3-8B: other models feel the same type more or less.
std::string Yardstick(double mean_divergence);

}  // namespace runtime
