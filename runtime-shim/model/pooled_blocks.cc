#include "runtime-shim/model/pooled_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime-shim/model/block_choice.h"

namespace moepack::runtime {

void PoolKeys(const BlockShape& shape, const PooledKey& pooled, std::span<const float> keys,
              std::span<float> key) {
  const size_t width = shape.width;
  std::copy_n(keys.begin(), width, key.begin());
  for (size_t row = 1; row < shape.block; ++row)
    for (size_t i = 0; i < width; ++i) key[i] += keys[row * width + i];
  const float share = 1 / static_cast<float>(shape.block);
  double squares = 0;
  for (float& value : key) {
    value *= share;
    squares += double{value} * double{value};
  }
  const auto mean = static_cast<float>(squares / shape.width);
  const float factor = 1 / std::sqrt(mean + pooled.eps);
  for (size_t i = 0; i < width; ++i) key[i] = key[i] * factor * pooled.norm[i];
  const size_t pairs = pooled.turns.size() / 2;
  const bool halves = pooled.pairing == Pairing::kHalves;
  for (size_t pair = 0; pair < pairs; ++pair) {
    float& x = key[halves ? pair : 2 * pair];
    float& y = key[halves ? pair + pairs : 2 * pair + 1];
    const float cosine = pooled.turns[pair], sine = pooled.turns[pairs + pair], old = x;
    x = old * cosine - y * sine;
    y = old * sine + y * cosine;
  }
}

namespace {

float ScoreOf(const BlockShape& shape, std::span<const float> query, std::span<const float> key) {
  float score = 0;
  for (size_t head = 0; head < shape.heads; ++head) {
    const std::span<const float> own = query.subspan(head * shape.width, shape.width);
    score += std::max(0.0f, std::inner_product(own.begin(), own.end(), key.begin(), 0.0f));
  }
  return score;
}

}  // namespace

std::vector<uint32_t> PickPooled(const BlockShape& shape, std::span<const float> query,
                                 std::span<const float> pooled, uint32_t count) {
  std::vector<uint32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0u);
  if (SeesAllBlocks(shape, count)) return positions;
  const uint64_t seen = uint64_t{shape.block} * shape.picked + shape.block - 1;
  // The keys since the last complete block are always seen.
  std::vector<float> scores(count, std::numeric_limits<float>::infinity());
  for (uint32_t block = 0; block < count / shape.block; ++block) {
    const size_t first = size_t{block} * shape.block;
    std::fill_n(scores.begin() + static_cast<std::ptrdiff_t>(first), shape.block,
                ScoreOf(shape, query, pooled.subspan(size_t{block} * shape.width, shape.width)));
  }
  // All keys of a block have the same score, and scores of zero are common: which of equal keys are
  // kept changes what attention sees. The sort is that of ggml_top_k.
  const auto end = positions.begin() + static_cast<std::ptrdiff_t>(seen);
  std::partial_sort(positions.begin(), end, positions.end(),
                    [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  positions.erase(end, positions.end());
  std::sort(positions.begin(), positions.end());
  return positions;
}

}  // namespace moepack::runtime
