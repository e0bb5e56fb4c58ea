#include "runtime-shim/model/block_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace moepack::runtime {
namespace {

float Dot(std::span<const float> a, const float* b) {
  float sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

std::vector<uint32_t> PickBlocks(const BlockShape& shape, std::span<const float> query,
                                 std::span<const float> keys) {
  const size_t count = keys.size() / shape.width;
  const auto blocks = static_cast<uint32_t>((count + shape.block - 1) / shape.block);
  std::vector<float> scores(blocks, -std::numeric_limits<float>::infinity());
  for (size_t key = 0; key < count; ++key) {
    float& score = scores[key / shape.block];
    score = std::max(score, Dot(query, keys.data() + key * shape.width));
  }
  for (uint32_t last = 0; last < std::min(shape.local, blocks); ++last)
    scores[blocks - 1 - last] = std::numeric_limits<float>::infinity();
  std::vector<uint32_t> order(blocks);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(shape.picked, blocks));
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<uint32_t> KeysOfBlocks(const BlockShape& shape, std::span<const uint32_t> blocks,
                                   uint32_t count) {
  std::vector<uint32_t> keys;
  for (const uint32_t block : blocks) {
    const uint64_t end = std::min<uint64_t>(count, (uint64_t{block} + 1) * shape.block);
    for (uint64_t key = uint64_t{block} * shape.block; key < end; ++key)
      keys.push_back(static_cast<uint32_t>(key));
  }
  return keys;
}

void AttendToBlocks(const PickedAttention& inputs, const BlockShape& shape,
                    std::span<const uint32_t> blocks, std::span<float> out) {
  AttendToKeys(inputs, KeysOfBlocks(shape, blocks, inputs.count), out);
}

void AttendToKeys(const PickedAttention& inputs, std::span<const uint32_t> seen,
                  std::span<float> out) {
  std::vector<float> weights(seen.size());
  const size_t heads = inputs.queries.size() / inputs.key_width;
  for (size_t head = 0; head < heads; ++head) {
    const std::span<const float> query =
        inputs.queries.subspan(head * inputs.key_width, inputs.key_width);
    for (size_t i = 0; i < seen.size(); ++i)
      weights[i] =
          inputs.scale * Dot(query, inputs.keys.data() + size_t{seen[i]} * inputs.key_stride);
    const float largest = *std::max_element(weights.begin(), weights.end());
    float sum = 0;
    for (float& weight : weights) sum += weight = std::exp(weight - largest);
    const std::span<float> row = out.subspan(head * inputs.value_width, inputs.value_width);
    std::fill(row.begin(), row.end(), 0.0f);
    for (size_t i = 0; i < seen.size(); ++i) {
      const float* const value = inputs.values.data() + size_t{seen[i]} * inputs.value_stride;
      for (size_t j = 0; j < row.size(); ++j) row[j] += weights[i] / sum * value[j];
    }
  }
}

}  // namespace moepack::runtime
