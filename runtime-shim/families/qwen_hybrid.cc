#include "libshard/base/text/text.h"
#include "libshard/model/gguf_architectures.h"
#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

void ReadDelta(SpecKeys& keys, ModelSpec& spec) {
  DeltaShape& shape = spec.delta;
  shape.kernel = keys.Required("ssm.conv_kernel");
  shape.width = keys.Required("ssm.state_size");
  shape.key_heads = keys.Required("ssm.group_count");
  shape.value_heads = keys.Required("ssm.time_step_rank");
  if (shape.key_heads == 0 || shape.value_heads % shape.key_heads != 0) {
    keys.Refuse("ssm.time_step_rank", Cat("a multiple of ", shape.key_heads),
                Cat(shape.value_heads));
    return;
  }
  // Products of the numbers so far fit in 64 bits (SpecKeys), those of the shape in 32.
  const uint64_t inner = uint64_t{shape.value_heads} * shape.width;
  if (inner != keys.Required("ssm.inner_size") || 3 * inner > UINT32_MAX)
    keys.Refuse("ssm.inner_size", Cat(inner, " (heads x size of the state)"),
                Cat(keys.Uint("ssm.inner_size", 0)));
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  ReadDelta(keys, spec);
  spec.gated_queries = true;
  spec.second_norm = "post_attention_norm";
  if (spec.value_width != spec.key_width)
    keys.Refuse("attention.value_length", Cat(spec.key_width), Cat(spec.value_width));
  const uint32_t interval =
      keys.Uint("full_attention_interval", FindArchitecture(keys.architecture())->full_interval);
  if (interval == 0) {
    keys.Refuse("full_attention_interval", "at least 1", "0");
    return;
  }
  const std::vector<bool> listed = keys.Flags("attention.recurrent_layers", spec.layers);
  for (uint32_t layer = 0; layer < spec.layers; ++layer)
    spec.layer[layer].recurrent = listed.empty() ? (layer + 1) % interval != 0 : listed[layer];
}

void FillTiled(SpecKeys& keys, ModelSpec& spec) {
  Fill(keys, spec);
  spec.delta.tiled = true;
}

}  // namespace

constinit const RuntimeFamily kRunQwen3Next = {"qwen3next", "Qwen3-Next", Fill};
// Its rope has sections for pictures, which rotate text like a single one.
constinit const RuntimeFamily kRunQwen35Moe = {"qwen35moe", "Qwen3.5-MoE", FillTiled};

}  // namespace moepack::runtime
