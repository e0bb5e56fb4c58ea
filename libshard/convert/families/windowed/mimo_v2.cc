// MiMo-V2-Flash: layers with a window have a different number of key heads and a different rope
// base from those with full attention, and a sink per head; values are narrower than keys; sigmoid
// scores with a selection bias. Blocks for multi-token prediction are left out.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/mixed_layers.h"
#include "libshard/convert/hf_family.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

// Source: configuration_mimo_v2_flash.py of MiMo-V2-Flash.
constexpr std::string_view kDefaults =
    R"({"rope_theta": 5000000, "swa_rope_theta": 10000, "layernorm_epsilon": 1e-5})";

// One number for each layer, 0 or another.
Result<std::vector<bool>> PerLayer(const HfConfig& config, const HfShape& shape, ConfigKeys key) {
  SHARD_TRY(const std::vector<uint32_t> numbers, config.FindU32s(key));
  if (numbers.size() != shape.layers) {
    const auto field = config.Find(key);
    if (!field) return config.Missing(key, Cat("a list of ", shape.layers, " numbers"));
    return config.Wrong(*field, Cat("a list of ", shape.layers, " numbers"));
  }
  std::vector<bool> flags;
  for (const uint32_t number : numbers) flags.push_back(number != 0);
  return flags;
}

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
  if (narrow == 0 || shape.heads % narrow != 0) {
    return config.Wrong(*config.Find(fields::kWindowKeyHeads),
                        Cat("a divisor of the ", shape.heads, " attention heads"));
  }
  std::vector<int32_t> counts, pattern;
  for (const bool window : windowed) {
    counts.push_back(static_cast<int32_t>(window ? narrow : shape.kv_heads));
    pattern.push_back(window ? 1 : 0);
  }
  keys.I32s("attention.head_count_kv", counts);
  keys.I32s("attention.sliding_window_pattern", pattern);
  keys.U32("attention.key_length", shape.head_size);
  keys.U32("attention.value_length", value);
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const std::vector<bool> windowed, PerLayer(config, shape, fields::kWindowPattern));
  SHARD_CHECK(AddHeads(config, shape, windowed, keys));
  SHARD_TRY(const uint32_t window, config.U32(fields::kWindow));
  keys.U32("attention.sliding_window", window);
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
  MixedLayers layers;
  SHARD_TRY(layers.moe, PerLayer(config, shape, fields::kMoeFrequency));
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
  family.defaults = kDefaults;
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
