#include <cmath>

#include "libshard/base/text/text.h"
#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

// Layers with a window have their own sizes of heads and rope.
void ReadWindows(SpecKeys& keys, ModelSpec& spec) {
  const uint32_t window = keys.Required("attention.sliding_window");
  const std::vector<bool> windowed = keys.Flags("attention.sliding_window_pattern", spec.layers);
  if (windowed.empty()) {
    keys.Refuse("attention.sliding_window_pattern", "a list of bools", "none");
    return;
  }
  const uint32_t key = keys.Required("attention.key_length_swa");
  const uint32_t value = keys.Required("attention.value_length_swa");
  spec.local_rope = {};
  spec.local_rope.dims = keys.Uint("rope.dimension_count_swa", key);
  spec.local_rope.base = keys.Float("rope.freq_base_swa", spec.rope.base);
  const uint32_t dims = spec.local_rope.dims;
  if (dims == 0 || dims % 2 != 0 || dims > key)
    keys.Refuse("rope.dimension_count_swa", Cat("an even number up to ", key), Cat(dims));
  for (uint32_t number = 0; number < spec.layers; ++number) {
    if (!windowed[number]) continue;
    LayerSpec& layer = spec.layer[number];
    layer.key_width = key;
    layer.value_width = value;
    layer.window = window;
    layer.local_rope = true;
  }
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  ReadWindows(keys, spec);
  if (keys.Uint("attention.shared_kv_layers", 0) != 0)
    keys.Decline("layers that share keys and values do not run in the runtime shim");
  if (keys.Uint("embedding_length_per_layer_input", 0) != 0)
    keys.Decline("embeddings per layer do not run in the runtime shim");
  if (spec.key_width != spec.value_width)
    keys.Refuse("attention.value_length", Cat(spec.key_width), Cat(spec.value_width));
  spec.attention_scale = 1;
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.width));
  spec.norm_values = true;
  spec.parallel_experts = true;
  spec.activation = spec.expert_activation = Activation::kGelu;
  spec.logit_cap = keys.Float("final_logit_softcapping", 0);
  if (spec.logit_cap < 0)
    keys.Refuse("final_logit_softcapping", "no negative number", Cat(spec.logit_cap));
}

}  // namespace

constinit const RuntimeFamily kRunGemma4 = {"gemma4", "Gemma-4 with experts", Fill};

}  // namespace moepack::runtime
