#include "libshard/base/text/text.h"
#include "runtime-shim/families/families.h"

namespace moepack::runtime {
namespace {

void ReadMamba(SpecKeys& keys, ModelSpec& spec) {
  MambaShape& shape = spec.mamba;
  shape.kernel = keys.Required("ssm.conv_kernel");
  shape.size = keys.Required("ssm.state_size");
  shape.groups = keys.Required("ssm.group_count");
  shape.heads = keys.Required("ssm.time_step_rank");
  const uint32_t inner = keys.Required("ssm.inner_size");
  if (!keys.status()) return;
  if (shape.heads % shape.groups != 0) {
    keys.Refuse("ssm.time_step_rank", Cat("a multiple of ", shape.groups), Cat(shape.heads));
    return;
  }
  if (inner % shape.heads != 0) {
    keys.Refuse("ssm.inner_size", Cat("a multiple of ", shape.heads), Cat(inner));
    return;
  }
  shape.width = inner / shape.heads;
  // The numbers so far fit in 25 bits (SpecKeys), and products of two in 64.
  const uint64_t projected = 2 * (uint64_t{inner} + uint64_t{shape.groups} * shape.size);
  if (projected + shape.heads > UINT32_MAX)
    keys.Refuse("ssm.state_size", "a size that fits", Cat(shape.size));
}

// A layer without key heads is a Mamba layer or, if it has a width, one with experts.
void Fill(SpecKeys& keys, ModelSpec& spec) {
  ReadMamba(keys, spec);
  const std::vector<uint32_t> widths = keys.PerLayer("feed_forward_length", spec.layers, 0);
  for (uint32_t number = 0; number < spec.layers; ++number) {
    LayerSpec& layer = spec.layer[number];
    layer.rope = false;
    layer.feeds = widths[number] > 0;
    layer.mixes = !layer.feeds;
    layer.recurrent = layer.mixes && layer.key_heads == 0;
    if (layer.feeds && layer.key_heads > 0)
      keys.Refuse("attention.head_count_kv", Cat("0 in layer ", number, ", which has experts"),
                  Cat(layer.key_heads));
  }
  spec.gated_mlps = false;
  spec.activation = spec.expert_activation = Activation::kSquaredRelu;
  spec.expert_space = keys.Uint("moe_latent_size", 0);
}

}  // namespace

constinit const RuntimeFamily kRunNemotronH = {"nemotron_h_moe", "Nemotron-3", Fill,
                                               /*layers_without_heads=*/true};

}  // namespace moepack::runtime
