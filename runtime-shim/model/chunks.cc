#include "runtime-shim/model/chunks.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace moepack::runtime {
namespace {

// 0 for experts that are not eligible.
std::vector<float> SoftmaxOf(std::span<const float> logits, const ExpertIds& eligible) {
  float largest = logits[eligible.front()];
  for (const uint32_t id : eligible) largest = std::max(largest, logits[id]);
  std::vector<float> values(logits.size(), 0);
  float sum = 0;
  for (const uint32_t id : eligible) sum += values[id] = std::exp(logits[id] - largest);
  for (float& value : values) value /= sum;
  return values;
}

}  // namespace

Selection ChunksOf(std::span<const float> logits, const ExpertIds& eligible,
                   const Selection& chosen, uint32_t per_chunk) {
  const std::vector<float> gates = SoftmaxOf(logits, eligible);
  const size_t count = std::min(chosen.ids.size(), logits.size() / per_chunk);
  std::vector<uint32_t> chunks;
  float sum = 0;
  for (size_t rank = 0; rank < count; ++rank) {
    chunks.push_back(chosen.ids[rank] / per_chunk);
    sum += gates[chunks.back()];
  }
  std::sort(chunks.begin(), chunks.end());
  Selection picked;
  for (const uint32_t chunk : chunks) {
    const float weight = gates[chunk] / std::max(sum, kLeastWeightSum);
    if (!picked.ids.empty() && picked.ids.back() == chunk) {
      picked.weights.back() += weight;
      continue;
    }
    picked.ids.push_back(chunk);
    picked.weights.push_back(weight);
  }
  return picked;
}

}  // namespace moepack::runtime
