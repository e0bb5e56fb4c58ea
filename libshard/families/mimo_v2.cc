// MiMo-V2-Flash: DeepSeek-V3's MoE without shared experts; attention sinks; MTP blocks
// "model.mtp.layers.M" are dense. Names: config, llama.cpp's tensor map and published readers of
// the checkpoint.
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::mimo_v2 {
namespace {

constexpr const char* kGraph = "mimo2";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  AddModel(family);
  for (const char* at : {"layers.{L}.", "mtp.layers.{M}."}) {
    AddAttention(family, at);
    AddDeepseekMoe(family, at);
    AddMtpExtras(family, at);
  }
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddTowers(family);
  return family;
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

// MiMo-V2-Flash: layers with a window have a different number of key heads and a different rope
// base from those with full attention, and a sink per head; values are narrower than keys; sigmoid
// scores with a selection bias. Blocks for multi-token prediction are left out.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
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

constexpr std::string_view kArchitectures[] = {"MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"mimo_v2_flash", "mimo_v2"};

constexpr ConfigDefault kDefaults[] = {
    // configuration_mimo_v2_flash.py of MiMo-V2-Flash
    {R"({"rope_theta": 5000000, "swa_rope_theta": 10000, "layernorm_epsilon": 1e-5})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = {{.gating = Gating::kSigmoid, .normalize = true}}},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "MiMo-V2", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"mimo-v2", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::mimo_v2
