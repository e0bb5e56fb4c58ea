// MiMo-V2-Flash: layers with a window have a different number of key heads and a different rope
// base from those with full attention, and a sink per head; values are narrower than keys; sigmoid
// scores with a selection bias. Blocks for multi-token prediction are left out.
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/mixed_layers.h"
#include "libshard/convert/families/windowed/windows.h"
#include "libshard/convert/hf_family.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

// The runtime has one size for both kinds of layers.
Status CheckSame(const HfConfig& config, ConfigKeys key, uint32_t expected) {
  SHARD_TRY(const std::optional<uint32_t> found, config.FindU32(key));
  if (found.value_or(expected) == expected) return Ok();
  return Error{Code::kUnsupported,
               Cat(config.where(), ": ", *key.begin(), ": expected ", expected,
                   " as in layers with full attention, found ", *found),
               kNoGgufHint};
}

Status AddHeads(const HfConfig& config, const HfShape& shape, const std::vector<bool>& windowed,
                ArchKeys& keys) {
  SHARD_TRY(
      const uint32_t value,
      config.U32(config.Has(fields::kValueHeadSize) ? fields::kValueHeadSize : fields::kHeadSize));
  SHARD_CHECK(CheckSame(config, fields::kWindowHeadSize, shape.head_size));
  SHARD_CHECK(CheckSame(config, {"swa_num_attention_heads"}, shape.heads));
  SHARD_CHECK(CheckSame(config, fields::kWindowValueSize, value));
  SHARD_TRY(const std::optional<uint32_t> own, config.FindU32(fields::kWindowKeyHeads));
  const uint32_t narrow = own.value_or(shape.kv_heads);
  SHARD_CHECK(CheckKeyHeads(config, fields::kWindowKeyHeads, shape.heads, narrow));
  keys.I32s("attention.head_count_kv", ByWindow(windowed, narrow, shape.kv_heads));
  keys.I32s("attention.sliding_window_pattern", ByWindow(windowed, 1, 0));
  keys.U32("attention.key_length", shape.head_size);
  keys.U32("attention.value_length", value);
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const std::vector<bool> windowed, ReadWindowed(config, shape, fields::kWindowPattern));
  SHARD_CHECK(AddHeads(config, shape, windowed, keys));
  SHARD_CHECK(AddWindowKey(config, keys));
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  SHARD_TRY(const uint32_t rotated, RotatedPart(config, shape.head_size));
  keys.U32("rope.dimension_count", rotated);
  SHARD_TRY(const float base, config.F32({"swa_rope_theta"}));
  keys.F32("rope.freq_base_swa", base);
  SHARD_TRY(const std::optional<float> scale, config.FindF32({"attention_value_scale"}));
  if (scale) keys.F32("attention.value_scale", *scale);
  return Ok();
}

Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(MoeLayers read, LayersWithExperts(config, shape));
  if (read.key.empty()) return config.Missing(fields::kMoeFrequency, "which layers have experts");
  MixedLayers layers;
  layers.moe = std::move(read.moe);
  layers.selection_bias = true;
  layers.shared = false;
  return CheckMixedLayers(config, layers, tensors);
}

}  // namespace

Result<GgufModel> ConvertMimoV2(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = "mimo2";
  family.pre = "qwen2";
  family.needs_output = true;
  family.all_layers_moe = false;
  family.keys = AddKeys;
  family.check = Check;
  AddModelRows(family);
  AddAttentionRows(family);
  AddOptionalRow(family, "layers.{L}.self_attn.attention_sink_bias", "blk.{L}.attn_sinks.weight");
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  AddMixedRows(family, {"layers.{L}.mlp.", "gate", "shared_experts"});
  AddOptionalRow(family, "layers.{L}.mlp.gate.e_score_correction_bias", "blk.{L}.exp_probs_b.bias");
  return ConvertHf(model, family, options);
}

}  // namespace moepack
