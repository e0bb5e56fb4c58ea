#include "libshard/fit/compute_bytes.h"

#include <algorithm>

#include "libshard/fit/cache_shape.h"

namespace moepack {

uint64_t ComputeBytes(const MoeModel& model, uint64_t context) {
  constexpr uint64_t kNumberBytes = 4, kVectors = 8, kExpertVectors = 3;
  const ModelConfig& config = model.config();
  uint64_t top_k = 0;
  for (const MoeLayer& layer : model.layers()) top_k = std::max<uint64_t>(top_k, layer.top_k);
  const uint64_t experts =
      top_k * (config.hidden_size + kExpertVectors * uint64_t{config.expert_intermediate_size});
  const uint64_t numbers = config.vocab_size + kVectors * config.hidden_size + experts + context;
  return kNumberBytes * kBatchTokens * numbers;
}

}  // namespace moepack
