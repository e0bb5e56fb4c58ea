// The arithmetic of each operation on one row, in double and rounded once. Formulas are those of
// executor.h. NaN passes through all of them: comparisons are written so that NaN stays.
#pragma once

#include <cstdint>
#include <span>

#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime {

double Dot(std::span<const float> a, std::span<const float> b);
double Sigmoid(double x);  // 1 / (1 + exp(-x))

// x += scale * y
void AddRow(std::span<float> x, std::span<const float> y, double scale);
// x *= factor
void ScaleRow(std::span<float> x, double factor);

struct NormVectors {
  std::span<const float> weight, bias;  // or empty
  float eps;
};
// y = x / sqrt(mean(x^2) + eps) * weight + bias; y may be x.
void NormRow(std::span<const float> x, const NormVectors& norm, std::span<float> y);

// size = {the Euclidean norm of x, its largest magnitude}
void MeasureRow(std::span<const float> x, std::span<float> size);

// gate = act(gate, up)
void ActivateRow(Activation activation, std::span<float> gate, std::span<const float> up);

// All heads of one token; `turns` holds its cosines, then its sines.
void RotateRow(std::span<float> x, const Rotation& rotation, std::span<const float> turns);

// One head of one token.
struct HeadInputs {
  Rows keys, values;
  std::span<const float> sinks;  // one per head, or empty
  uint32_t position, head;
};
// `query` and `out` are the token's whole rows; the head's columns of `out` are written.
void AttendHead(const AttentionShape& shape, const HeadInputs& inputs, std::span<const float> query,
                std::span<float> out);

// The first position that a token at `position` sees; the last one is its own.
uint32_t FirstSeen(const AttentionShape& shape, uint32_t position);

}  // namespace moepack::runtime
