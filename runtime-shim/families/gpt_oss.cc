#include "libshard/model/gguf_architectures.h"
#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.second_norm = "post_attention_norm";
  spec.expert_activation = Activation::kClampedSilu;
  const uint32_t window = keys.Required("attention.sliding_window");
  const auto usual = static_cast<uint32_t>(FindArchitecture(keys.architecture())->window->period);
  const std::vector<uint32_t> pattern =
      keys.PerLayer("attention.sliding_window_pattern", spec.layers, usual);
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    const uint32_t period = pattern[layer];
    // A period n: n - 1 layers with the window, then one without.
    if (period > 0 && layer % period < period - 1) spec.layer[layer].window = window;
  }
}

}  // namespace

constinit const RuntimeFamily kRunGptOss = {"gpt-oss", "gpt-oss", Fill};

}  // namespace moepack::runtime
