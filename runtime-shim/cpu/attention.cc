#include "runtime-shim/cpu/attention.h"

// The executor's threads take whole groups, so Eigen must not start threads inside one.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime-shim/reference/host_executor.h"
#include "runtime-shim/reference/scalar_ops.h"

namespace moepack::runtime {
namespace {

using RowMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<RowMatrix, Eigen::Unaligned, Eigen::OuterStride<>>;

View ViewOf(const Rows& rows) {
  return {RowOf(rows, 0).data(), rows.count, rows.width, Eigen::OuterStride<>(rows.stride)};
}

// Views a token's row with one row per head.
View HeadsOf(std::span<float> row, uint32_t first, uint32_t heads, uint32_t width) {
  return {row.data() + size_t{first} * width, heads, width, Eigen::OuterStride<>(width)};
}

// Computes the softmax of `scale` * scores, with `sink` as one more score. It uses std::exp,
// because Eigen's exp clamps its argument and so turns NaN into a number.
void Softmax(std::span<float> scores, float scale, float sink) {
  float largest = sink;
  for (float& score : scores) largest = std::max(largest, score *= scale);
  float sum = std::exp(sink - largest);
  for (float& score : scores) sum += score = std::exp(score - largest);
  for (float& score : scores) score /= sum;
}

}  // namespace

void AttendGroup(const AttentionShape& shape, const GroupInputs& inputs,
                 AttentionScratch& scratch) {
  const uint32_t heads = shape.heads / shape.key_heads, first_head = inputs.key_head * heads;
  const uint32_t position = shape.past + inputs.token, first = FirstSeen(shape, position);
  const uint32_t seen = position - first + 1;
  const auto cached = [&](const Rows& cache, uint32_t width) {
    return ViewOf(cache.Slice(first, seen).Columns(inputs.key_head * width, width));
  };
  const View queries =
      HeadsOf(RowOf(inputs.rows.queries, inputs.token), first_head, heads, shape.key_width);
  View out = HeadsOf(RowOf(inputs.out, inputs.token), first_head, heads, shape.value_width);

  scratch.resize(size_t{heads} * seen);
  View weights(scratch.data(), heads, seen, Eigen::OuterStride<>(seen));
  weights.noalias() = queries * cached(inputs.rows.keys, shape.key_width).transpose();
  for (uint32_t head = 0; head < heads; ++head) {
    const float sink = inputs.sinks.empty() ? -std::numeric_limits<float>::infinity()
                                            : inputs.sinks[first_head + head];
    Softmax(std::span(scratch).subspan(size_t{head} * seen, seen), shape.scale, sink);
  }
  out.noalias() = weights * cached(inputs.rows.values, shape.value_width);
}

}  // namespace moepack::runtime
