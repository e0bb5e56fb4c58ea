#include "runtime-shim/model/indexer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moepack::runtime {
namespace {

constexpr float kNormEps = 1e-6f;  // transformers' GlmMoeDsaIndexer

}  // namespace

void RotateIndex(const IndexerShape& shape, std::span<const float> turns, std::span<float> heads) {
  const size_t pairs = shape.dims / 2;
  for (size_t first = 0; first + shape.width <= heads.size(); first += shape.width) {
    for (size_t pair = 0; pair < pairs; ++pair) {
      float &x = heads[first + 2 * pair], &y = heads[first + 2 * pair + 1];
      const float cosine = turns[pair], sine = turns[pairs + pair], old = x;
      x = old * cosine - y * sine;
      y = old * sine + y * cosine;
    }
  }
}

void FinishIndexKey(const IndexerShape& shape, const IndexerConstants& constants,
                    std::span<const float> turns, std::span<float> key) {
  double sum = 0;
  for (const float value : key) sum += double{value};
  const auto mean = static_cast<float>(sum / shape.width);
  double squares = 0;
  for (float& value : key) {
    value -= mean;
    squares += double{value} * double{value};
  }
  const auto variance = static_cast<float>(squares / shape.width);
  const float factor = 1 / std::sqrt(variance + kNormEps);
  for (size_t i = 0; i < key.size(); ++i)
    key[i] = key[i] * factor * constants.norm[i] + constants.bias[i];
  RotateIndex(shape, turns, key);
}

std::vector<uint32_t> PickPositions(const IndexerShape& shape, const IndexQuery& query,
                                    std::span<const float> keys) {
  const size_t width = shape.width, count = keys.size() / width;
  const float scale =
      1 / std::sqrt(static_cast<float>(shape.width) * static_cast<float>(shape.heads));
  std::vector<float> scores(count);
  for (size_t position = 0; position < count; ++position) {
    const std::span<const float> key = keys.subspan(position * width, width);
    float score = 0;
    for (size_t head = 0; head < shape.heads; ++head) {
      const std::span<const float> own = query.heads.subspan(head * width, width);
      const float product = std::inner_product(own.begin(), own.end(), key.begin(), 0.0f);
      score += std::max(product, 0.0f) * (query.weights[head] * scale);
    }
    scores[position] = score;
  }
  std::vector<uint32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0u);
  // Scores of zero are common, and which of them are kept changes what attention sees: the sort is
  // that of ggml_top_k, which keeps some of the first.
  const auto better = [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; };
  if (count > shape.top_k) {
    std::partial_sort(positions.begin(), positions.begin() + shape.top_k, positions.end(), better);
    positions.resize(shape.top_k);
  }
  std::sort(positions.begin(), positions.end());
  return positions;
}

}  // namespace moepack::runtime
