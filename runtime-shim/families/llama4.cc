#include "libshard/model/gguf_architectures.h"
#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

// All of these are hard-coded in llama.cpp, which reads neither the chunk nor the temperature from
// the file.
constexpr uint32_t kChunk = 8192, kTemperatureFloor = 8192, kRotationPeriod = 4;
constexpr float kTemperature = 0.1f;

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.rope.pairing = Pairing::kNeighbours;
  spec.weigh_inputs = true;
  spec.temperature = kTemperature;
  spec.temperature_floor = kTemperatureFloor;
  spec.norm_heads_after_rope =
      keys.Uint("expert_count", 0) != FindArchitecture(keys.architecture())->experts_without_norm;
  const bool whole = keys.Has("attention.sliding_window");
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    LayerSpec& own = spec.layer[layer];
    own.rope = (layer + 1) % kRotationPeriod != 0;
    own.chunk = own.rope && !whole ? kChunk : 0;
  }
}

}  // namespace

constinit const RuntimeFamily kRunLlama4 = {"llama4", "Llama-4 text", Fill};

}  // namespace moepack::runtime
