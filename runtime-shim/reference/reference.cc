#include "runtime-shim/reference/reference.h"

#include <algorithm>
#include <vector>

#include "runtime-shim/reference/scalar_ops.h"

namespace moepack::runtime {
namespace {

void CopyRow(std::span<const float> from, std::span<float> to) {
  std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

void ReferenceExecutor::ForEachRow(const Rows& rows,
                                   const std::function<void(uint32_t row)>& work) {
  for (uint32_t row = 0; row < rows.count; ++row) work(row);
}

void ReferenceExecutor::MatMul(const Matrix& weights, const Rows& x, const Rows& y) {
  std::vector<float> scratch;
  for (uint32_t r = 0; r < weights.rows; ++r) {
    const auto row = FloatsOf(weights, r, 1, scratch);
    for (uint32_t t = 0; t < x.count; ++t)
      // Dot adds in double precision, so a value is rounded only once.
      RowOf(y, t)[r] = static_cast<float>(Dot(row, RowOf(x, t)));
  }
}

void ReferenceExecutor::Embed(const Matrix& weights, std::span<const uint32_t> ids, const Rows& y) {
  ForEachRow(
      y, [&](uint32_t i) { weights.format->decode(BlocksOf(weights, ids[i], 1), RowOf(y, i)); });
}

void ReferenceExecutor::RmsNorm(const Rows& x, const NormWeights& norm, const Rows& y) {
  std::vector<float> weight_scratch, bias_scratch;
  const NormVectors vectors = {VectorOf(norm.weight, weight_scratch),
                               VectorOf(norm.bias, bias_scratch), norm.eps};
  ForEachRow(x, [&](uint32_t t) { NormRow(RowOf(x, t), vectors, RowOf(y, t)); });
}

void ReferenceExecutor::MeasureRows(const Rows& x, const Rows& sizes) {
  ForEachRow(x, [&](uint32_t t) { MeasureRow(RowOf(x, t), RowOf(sizes, t)); });
}

void ReferenceExecutor::Copy(const Rows& from, const Rows& to) {
  ForEachRow(from, [&](uint32_t t) { CopyRow(RowOf(from, t), RowOf(to, t)); });
}

void ReferenceExecutor::Transpose(const Rows& x, const Rows& y) {
  ForEachRow(y, [&](uint32_t c) {
    for (uint32_t t = 0; t < x.count; ++t) RowOf(y, c)[t] = RowOf(x, t)[c];
  });
}

void ReferenceExecutor::AddBias(const Rows& x, const Matrix& bias) {
  std::vector<float> scratch;
  const auto values = VectorOf(bias, scratch);
  ForEachRow(x, [&](uint32_t t) { AddRow(RowOf(x, t), values, 1); });
}

void ReferenceExecutor::Add(const Rows& x, const Rows& y, float scale) {
  ForEachRow(x, [&](uint32_t t) { AddRow(RowOf(x, t), RowOf(y, t), scale); });
}

void ReferenceExecutor::Scale(const Rows& x, float factor) {
  ForEachRow(x, [&](uint32_t t) { ScaleRow(RowOf(x, t), factor); });
}

void ReferenceExecutor::ScaleRows(const Rows& x, std::span<const float> factors) {
  ForEachRow(x, [&](uint32_t t) { ScaleRow(RowOf(x, t), factors[t]); });
}

void ReferenceExecutor::ScaleBySigmoid(const Rows& x, const Rows& gate) {
  ForEachRow(x, [&](uint32_t t) { ScaleRow(RowOf(x, t), Sigmoid(RowOf(gate, t)[0])); });
}

void ReferenceExecutor::Activate(Activation activation, const Rows& gate, const Rows& up) {
  ForEachRow(gate, [&](uint32_t t) { ActivateRow(activation, RowOf(gate, t), RowOf(up, t)); });
}

void ReferenceExecutor::Rotate(const Rows& x, const Rotation& rotation, const Rows& turns) {
  ForEachRow(x, [&](uint32_t t) { RotateRow(RowOf(x, t), rotation, RowOf(turns, t)); });
}

void ReferenceExecutor::Attention(const AttentionShape& shape, const AttentionInputs& inputs,
                                  const Rows& out) {
  std::vector<float> scratch;
  const auto sinks = VectorOf(inputs.sinks, scratch);
  for (uint32_t t = 0; t < inputs.queries.count; ++t) {
    for (uint32_t head = 0; head < shape.heads; ++head) {
      AttendHead(shape, {inputs.keys, inputs.values, sinks, shape.past + t, head},
                 RowOf(inputs.queries, t), RowOf(out, t));
    }
  }
}

void ReferenceExecutor::Gather(const Rows& x, std::span<const uint32_t> rows,
                               std::span<const float> factors, const Rows& y) {
  ForEachRow(y, [&](uint32_t i) {
    CopyRow(RowOf(x, rows[i]), RowOf(y, i));
    if (!factors.empty()) ScaleRow(RowOf(y, i), factors[i]);
  });
}

void ReferenceExecutor::ScatterAdd(const Rows& x, std::span<const uint32_t> rows,
                                   std::span<const float> factors, const Rows& y) {
  ForEachRow(y, [&](uint32_t i) { AddRow(RowOf(x, rows[i]), RowOf(y, i), factors[i]); });
}

}  // namespace moepack::runtime
