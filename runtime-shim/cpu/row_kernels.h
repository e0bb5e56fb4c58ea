// Operations on single rows with this machine's vectors, in F32. Each value depends only on the
// row, not on where the row is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime-shim/executor/shapes.h"
#include "runtime-shim/reference/scalar_ops.h"

namespace moepack::runtime {

// gate = act(gate, up)
void ActivateFast(Activation activation, std::span<float> gate, std::span<const float> up);
// y = x / sqrt(mean(x^2) + eps) * weight + bias; y may be x.
void NormFast(std::span<const float> x, const NormVectors& norm, std::span<float> y);
// Replaces scores by the softmax of `scale` times them, in which `sink` takes part as one more
// score.
void SoftmaxFast(std::span<float> scores, float scale, float sink);
// x += factor * y
void AddFast(std::span<float> x, std::span<const float> y, float factor);
// Returns the Euclidean norm and the largest magnitude; the norm of a row with NaN is NaN.
struct RowSize {
  float norm, peak;
};
RowSize SizeOf(std::span<const float> row);

// out[h][c] = sum over j of weights[h][j] * values[j][c], in ascending j.
struct WeightedSum {
  const float* weights = nullptr;  // [heads, count]
  const float* values = nullptr;   // row j at values + j * stride
  size_t stride = 0;
  uint32_t heads = 0, count = 0, width = 0;
  float* out = nullptr;  // [heads, width]
};
void AddWeighted(const WeightedSum& sum);

}  // namespace moepack::runtime
