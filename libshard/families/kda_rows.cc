#include "libshard/families/kda_rows.h"

#include "libshard/base/text/text.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/model/layer_fields.h"

namespace moepack {

Result<std::vector<uint32_t>> KdaLayers(const HfConfig& config) {
  SHARD_TRY(const HfShape shape, ReadShape(config));
  SHARD_TRY(
      const std::vector<LayerKind> kinds,
      ReadBlockKinds(config, shape, fields::kLayerTypes, {LayerKind::kLinear, LayerKind::kFull}));
  std::vector<uint32_t> kda;
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    if (kinds[layer] == LayerKind::kLinear) kda.push_back(layer);
  }
  return kda;
}

void AddKdaRow(HfFamily& family, const std::vector<uint32_t>& kda, const std::string& source,
               const std::string& target, ValueRule rule) {
  family.rows.push_back(
      {.source = source, .target = target, .rule = rule, .blocks = {kda, /*listed=*/true}});
}

void AddKdaRows(HfFamily& family, const std::vector<uint32_t>& kda, const std::string& at) {
  const auto add = [&](const std::string& source, const std::string& target) {
    AddKdaRow(family, kda, at + source, "blk.{L}." + target);
  };
  for (const std::string part : {"q", "k", "v"}) {
    add(part + "_proj.weight", Cat("attn_", part, ".weight"));
    add(part + "_conv1d.weight", Cat("ssm_conv1d_", part, ".weight"));
  }
  add("b_proj.weight", "ssm_beta.weight");
  add("dt_bias", "ssm_dt.bias");
  add("o_norm.weight", "ssm_norm.weight");
}

void AddKdaKeys(const KdaSizes& sizes, const std::vector<uint32_t>& kda, const HfShape& shape,
                ArchKeys& keys) {
  keys.U32("ssm.conv_kernel", sizes.kernel);
  keys.U32("kda.head_dim", sizes.head_size);
  keys.F32("kda.gate_lower_bound", sizes.lower_bound);
  std::vector<int32_t> counts(shape.layers + shape.mtp_layers, 1);
  for (const uint32_t layer : kda) counts[layer] = 0;
  keys.I32s("attention.head_count_kv", counts);
}

void FillKda(SpecKeys& keys, ModelSpec& spec) {
  KdaShape& shape = spec.kda;
  shape.heads = spec.heads;
  shape.width = keys.Required("kda.head_dim");
  shape.kernel = keys.Required("ssm.conv_kernel");
  shape.lower_bound = keys.RequiredFloat("kda.gate_lower_bound");
  if (!(shape.lower_bound < 0))
    keys.Refuse("kda.gate_lower_bound", "a number below 0", Cat(shape.lower_bound));
  // Products of the numbers so far fit in 64 bits (SpecKeys), those of the shape in 32.
  if (3 * uint64_t{shape.heads} * shape.width > UINT32_MAX)
    keys.Refuse("kda.head_dim", "a size of a head", Cat(shape.width));
  for (LayerSpec& layer : spec.layer) {
    if (layer.heads != spec.heads)
      keys.Refuse("attention.head_count", "as many in every layer", Cat(layer.heads));
    layer.recurrent = layer.key_heads == 0;
  }
}

}  // namespace moepack
