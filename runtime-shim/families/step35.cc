#include <algorithm>

#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

// Limits of gates and products, layer by layer; none where all are zero.
void DeclineLimits(SpecKeys& keys, std::string_view key, uint32_t layers) {
  const std::vector<float> limits = keys.Floats(key, layers);
  const bool any = std::any_of(limits.begin(), limits.end(), [](float limit) { return limit > 0; });
  if (any) keys.Decline(std::string(key) + ": limited activations do not run in the runtime shim");
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
  spec.rope.dims /= 2;  // llama.cpp halves it for layers with full attention
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    if (!windowed[layer]) continue;
    spec.layer[layer].window = window;
    spec.layer[layer].local_rope = true;
  }
  DeclineLimits(keys, "swiglu_clamp_exp", spec.layers);
  DeclineLimits(keys, "swiglu_clamp_shexp", spec.layers);
}

}  // namespace

constinit const RuntimeFamily kRunStep35 = {"step35", "Step-3.5", Fill};

}  // namespace moepack::runtime
