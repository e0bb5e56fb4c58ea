#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

void Fill(SpecKeys& keys, ModelSpec& spec) {
  const uint32_t window = keys.Required("attention.sliding_window");
  const std::vector<bool> windowed = keys.Flags("attention.sliding_window_pattern", spec.layers);
  if (windowed.empty()) {
    keys.Refuse("attention.sliding_window_pattern", "a list of bools", "none");
    return;
  }
  spec.local_rope = spec.rope;
  spec.local_rope.base = keys.Float("rope.freq_base_swa", spec.rope.base);
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    if (!windowed[layer]) continue;
    spec.layer[layer].window = window;
    spec.layer[layer].local_rope = true;
  }
  const float scale = keys.Float("attention.value_scale", 0);
  if (scale != 0) spec.value_scale = scale;
}

}  // namespace

constinit const RuntimeFamily kRunMimo2 = {"mimo2", "MiMo-V2", Fill};

}  // namespace moepack::runtime
