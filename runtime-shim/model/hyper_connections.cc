#include "runtime-shim/model/hyper_connections.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace moepack::runtime {
namespace {

float StreamSigmoid(float x) { return 1 / (1 + std::exp(-x)); }

void SoftmaxOf(std::span<float> row) {
  const float largest = *std::max_element(row.begin(), row.end());
  float sum = 0;
  for (float& value : row) sum += value = std::exp(value - largest);
  for (float& value : row) value /= sum;
}

// Divides `count` values, `stride` apart, by their sum.
void DivideBySum(std::span<float> matrix, size_t first, size_t stride, const StreamShape& shape) {
  float sum = 0;
  for (size_t i = 0; i < shape.count; ++i) sum += matrix[first + i * stride];
  sum += shape.eps;
  for (size_t i = 0; i < shape.count; ++i) matrix[first + i * stride] /= sum;
}

}  // namespace

void Balance(const StreamShape& shape, std::span<float> matrix) {
  const size_t count = shape.count;
  for (size_t row = 0; row < count; ++row) SoftmaxOf(matrix.subspan(row * count, count));
  for (float& value : matrix) value += shape.eps;
  for (uint32_t turn = 0; turn < std::max(shape.iterations, 1u); ++turn) {
    for (size_t row = 0; row < count && turn > 0; ++row) DivideBySum(matrix, row * count, 1, shape);
    for (size_t column = 0; column < count; ++column) DivideBySum(matrix, column, count, shape);
  }
}

std::vector<float> ReadStreams(const StreamShape& shape, const StreamConstants& constants,
                               std::span<const float> projected) {
  std::vector<float> read(shape.count);
  for (size_t i = 0; i < read.size(); ++i)
    read[i] = StreamSigmoid(projected[i] * constants.scale[0] + constants.base[i]) + shape.eps;
  return read;
}

StreamMix MixStreams(const StreamShape& shape, const StreamConstants& constants,
                     std::span<const float> projected) {
  const size_t count = shape.count;
  StreamMix mix;
  mix.read = ReadStreams(shape, constants, projected);
  const auto affine = [&](size_t i, size_t scale) {
    return projected[i] * constants.scale[scale] + constants.base[i];
  };
  for (size_t i = count; i < 2 * count; ++i) mix.write.push_back(2 * StreamSigmoid(affine(i, 1)));
  for (size_t i = 2 * count; i < (2 + count) * count; ++i) mix.keep.push_back(affine(i, 2));
  Balance(shape, mix.keep);
  return mix;
}

}  // namespace moepack::runtime
