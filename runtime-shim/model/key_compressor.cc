#include "runtime-shim/model/key_compressor.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace moepack::runtime {
namespace {

// A weighted mean of values that come one after another.
class WeightedMean {
 public:
  explicit WeightedMean(float largest) : largest_(largest) {}
  void Add(float value, float score) {
    const float weight = std::exp(score - largest_);
    sum_ += double{weight};
    mixed_ += double{weight} * double{value};
  }
  float value() const { return static_cast<float>(mixed_ / sum_); }

 private:
  float largest_;
  double sum_ = 0, mixed_ = 0;
};

void NormKey(const CompressorConstants& constants, std::span<float> key) {
  double squares = 0;
  for (const float value : key) squares += double{value} * double{value};
  const auto mean = static_cast<float>(squares / static_cast<double>(key.size()));
  const float factor = 1 / std::sqrt(mean + constants.eps);
  for (size_t i = 0; i < key.size(); ++i) key[i] *= factor * constants.norm[i];
}

// The key of the block whose last token is the state's. Its first block has none before it.
void CompressBlock(const CompressorShape& shape, const CompressorState& state,
                   std::span<float> key) {
  const uint32_t end = state.length, own = end - shape.ratio;
  const uint32_t first = shape.overlaps && own >= shape.ratio ? own - shape.ratio : own;
  const auto at = [&](uint32_t token, size_t i) {
    const size_t half = shape.overlaps && token >= own ? shape.width : 0;
    return size_t{token % shape.rows()} * shape.columns() + half + i;
  };
  for (size_t i = 0; i < shape.width; ++i) {
    float largest = state.scores[at(first, i)];
    for (uint32_t token = first; token < end; ++token)
      largest = std::max(largest, state.scores[at(token, i)]);
    WeightedMean mean(largest);
    for (uint32_t token = first; token < end; ++token)
      mean.Add(state.values[at(token, i)], state.scores[at(token, i)]);
    key[i] = mean.value();
  }
}

}  // namespace

void CompressorState::Clear(const CompressorShape& shape) {
  values.assign(size_t{shape.rows()} * shape.columns(), 0);
  scores = values;
  length = 0;
}

bool CompressToken(const CompressorShape& shape, const CompressorConstants& constants,
                   const CompressorToken& token, CompressorState& state, std::span<float> key) {
  const size_t columns = shape.columns(), row = state.length % shape.rows() * columns;
  const size_t place = state.length % shape.ratio * columns;
  for (size_t i = 0; i < columns; ++i) {
    state.values[row + i] = token.values[i];
    state.scores[row + i] = token.scores[i] + constants.places[place + i];
  }
  ++state.length;
  if (state.length % shape.ratio != 0) return false;
  CompressBlock(shape, state, key);
  NormKey(constants, key);
  return true;
}

}  // namespace moepack::runtime
