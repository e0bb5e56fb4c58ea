#include "runtime-shim/cpu/attention.h"

#include <algorithm>
#include <limits>

#include "runtime-shim/cpu/dots.h"
#include "runtime-shim/cpu/row_kernels.h"
#include "runtime-shim/reference/host_executor.h"
#include "runtime-shim/reference/scalar_ops.h"

namespace moepack::runtime {
namespace {

// How many keys fit in the first-level cache while all heads use them.
constexpr uint32_t kKeysAtOnce = 32;

}  // namespace

void AttendGroup(const AttentionShape& shape, const GroupInputs& inputs,
                 AttentionScratch& scratch) {
  const uint32_t heads = shape.heads / shape.key_heads, first_head = inputs.key_head * heads;
  const uint32_t position = shape.past + inputs.token, first = FirstSeen(shape, position);
  const uint32_t seen = position - first + 1;
  const auto cached = [&](const Rows& cache, uint32_t width) {
    return cache.Slice(first, seen).Columns(inputs.key_head * width, width);
  };
  const Rows keys = cached(inputs.rows.keys, shape.key_width);
  const Rows values = cached(inputs.rows.values, shape.value_width);

  scratch.scores.resize(size_t{heads} * seen);
  scratch.queries.clear(), scratch.rows.clear();
  const float* const query = RowOf(inputs.rows.queries, inputs.token).data();
  for (uint32_t head = 0; head < heads; ++head) {
    scratch.queries.push_back(query + size_t{first_head + head} * shape.key_width);
    scratch.rows.push_back(&scratch.scores[size_t{head} * seen]);
  }
  for (uint32_t key = 0; key < seen; key += kKeysAtOnce) {
    const uint32_t count = std::min(kKeysAtOnce, seen - key);
    MultiplyRows({{RowOf(keys, key).data(), keys.stride, count},
                  shape.key_width,
                  scratch.queries,
                  scratch.rows});
    for (float*& row : scratch.rows) row += count;
  }
  for (uint32_t head = 0; head < heads; ++head) {
    const float sink = inputs.sinks.empty() ? -std::numeric_limits<float>::infinity()
                                            : inputs.sinks[first_head + head];
    SoftmaxFast(std::span(scratch.scores).subspan(size_t{head} * seen, seen), shape.scale, sink);
  }
  float* const out = RowOf(inputs.out, inputs.token).data();
  AddWeighted({scratch.scores.data(), RowOf(values, 0).data(), values.stride, heads, seen,
               shape.value_width, out + size_t{first_head} * shape.value_width});
}

}  // namespace moepack::runtime
