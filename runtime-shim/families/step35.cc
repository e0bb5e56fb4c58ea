#include "libshard/base/text/text.h"
#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

// llama.cpp treats a limit up to this as none.
constexpr float kNoLimit = 1e-6f;

// Limits of gates and products, layer by layer.
void ReadLimits(SpecKeys& keys, const char* key, float LayerSpec::*limit, ModelSpec& spec) {
  const std::vector<float> limits = keys.Floats(key, spec.layers);
  for (uint32_t layer = 0; layer < spec.layers && !limits.empty(); ++layer)
    spec.layer[layer].*limit = limits[layer] > kNoLimit ? limits[layer] : 0;
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  const uint32_t window = keys.Required("attention.sliding_window");
  const std::vector<bool> windowed = keys.Flags("attention.sliding_window_pattern", spec.layers);
  if (windowed.empty()) {
    keys.Refuse("attention.sliding_window_pattern", "a list of bools", "none");
    return;
  }
  spec.local_rope = spec.rope;
  spec.local_rope.base = keys.Float("rope.freq_base_swa", spec.rope.base);
  if (spec.rope.dims % 4 != 0)
    keys.Refuse("rope.dimension_count", "a multiple of 4", Cat(spec.rope.dims));
  spec.rope.dims /= 2;  // llama.cpp halves it for layers with full attention
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    if (!windowed[layer]) continue;
    spec.layer[layer].window = window;
    spec.layer[layer].local_rope = true;
  }
  ReadLimits(keys, "swiglu_clamp_exp", &LayerSpec::expert_limit, spec);
  ReadLimits(keys, "swiglu_clamp_shexp", &LayerSpec::mlp_limit, spec);
}

}  // namespace

constinit const RuntimeFamily kRunStep35 = {"step35", "Step-3.5", Fill};

}  // namespace moepack::runtime
