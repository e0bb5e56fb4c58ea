#include "libshard/model/gguf_architectures.h"
#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

// Hard-coded in llama.cpp, like the chunks (gguf_architectures.cc).
constexpr uint32_t kTemperatureFloor = 8192;
constexpr float kTemperature = 0.1f;

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.rope.pairing = Pairing::kNeighbours;
  spec.weigh_inputs = true;
  spec.temperature = kTemperature;
  spec.temperature_floor = kTemperatureFloor;
  const GgufArchitecture& graph = *FindArchitecture(keys.architecture());
  spec.norm_heads_after_rope = keys.Uint("expert_count", 0) != graph.experts_without_norm;
  // llama.cpp asks only whether the key is 0; then it aborts.
  if (keys.Uint("attention.sliding_window", 1) == 0)
    return keys.Refuse("attention.sliding_window", "no such key, or more than 0", "0");
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    LayerSpec& own = spec.layer[layer];
    own.rope = (layer + 1) % graph.window->period != 0;
    own.chunk = own.rope ? graph.window->tokens : 0;
  }
}

}  // namespace

constinit const RuntimeFamily kRunLlama4 = {"llama4", "Llama-4 text", Fill};

}  // namespace moepack::runtime
