// Gemma-4 26B-A4B: layers with a window and layers with full attention have different head sizes
// and ropes, and the latter may use their keys as values. Every layer has a dense MLP beside the
// experts, with norms before and after each; the router has a scale for each channel and one for
// each expert.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/mixed_layers.h"
#include "libshard/convert/families/windowed/windows.h"
#include "libshard/convert/hf_family.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"
#include "libshard/model/layer_kind.h"

namespace moepack {
namespace {

// A divisor so large that no angle is left: llama.cpp's converter writes it for pairs that are not
// rotated.
constexpr float kNoTurn = 1e30f;

// rope_parameters has an object for each kind of layer.
Result<HfConfig> RopeOfKind(const HfConfig& config, LayerKind layers) {
  const std::string kind(LayerKindName(layers));
  const std::optional<HfConfig::Field> field = config.Find(fields::kRope);
  if (!field) return config.Missing(fields::kRope, "an object for each kind of layer");
  if (!field->value->is_object() || !field->value->contains(kind) ||
      !(*field->value)[kind].is_object()) {
    return config.Wrong(*field, Cat("an object with one for ", kind));
  }
  return HfConfig::Parse(Cat(config.where(), ": ", field->path, ".", kind),
                         (*field->value)[kind].dump());
}

Error OtherRope(const HfConfig& rope, const char* key, const std::string& expected,
                const std::string& found) {
  return {Code::kUnsupported,
          Cat(rope.where(), ": ", key, ": expected ", expected, ", found ", found), kNoGgufHint};
}

// Only the first `partial_rotary_factor` of a head's pairs are rotated, which the factors tell the
// runtime.
Result<std::vector<RopeTensor>> FactorsOfFullLayers(const HfConfig& config) {
  SHARD_TRY(const HfConfig rope, RopeOfKind(config, LayerKind::kFull));
  SHARD_TRY(const std::optional<std::string> type, rope.FindString(fields::kRopeType));
  if (type.value_or("default") != "proportional")
    return OtherRope(rope, "rope_type", "proportional", type.value_or("none"));
  SHARD_TRY(const uint32_t size, config.U32(fields::kGlobalHeadSize));
  SHARD_TRY(const float part, rope.F32(fields::kRotatedPart));
  if (size == 0 || size % 2 != 0 || size > 1u << 16) {
    return config.Wrong(*config.Find(fields::kGlobalHeadSize), "an even number up to 65536");
  }
  if (!(part >= 0 && part <= 1))
    return rope.Wrong(*rope.Find(fields::kRotatedPart), "a number from 0 to 1");
  const auto turned = static_cast<uint32_t>(double{part} * size / 2);
  std::vector<float> factors(size / 2, kNoTurn);
  std::fill(factors.begin(), factors.begin() + turned, 1.0f);
  return std::vector<RopeTensor>{{"rope_freqs.weight", std::move(factors)}};
}

Status AddRopes(const HfConfig& config, ArchKeys& keys) {
  SHARD_TRY(const HfConfig full, RopeOfKind(config, LayerKind::kFull));
  SHARD_TRY(const HfConfig window, RopeOfKind(config, LayerKind::kWindow));
  SHARD_TRY(const std::optional<std::string> type, window.FindString(fields::kRopeType));
  if (type.value_or("default") != "default")
    return OtherRope(window, "rope_type", "default", *type);
  SHARD_TRY(const std::optional<float> part, window.FindF32(fields::kRotatedPart));
  if (part.value_or(1) != 1) return OtherRope(window, "partial_rotary_factor", "1", Cat(*part));
  SHARD_TRY(const float base, full.F32(fields::kRopeBase));
  SHARD_TRY(const float window_base, window.F32(fields::kRopeBase));
  SHARD_CHECK(CheckRopeBase(full, base));
  SHARD_CHECK(CheckRopeBase(window, window_base));
  keys.F32("rope.freq_base", base);
  keys.F32("rope.freq_base_swa", window_base);
  return Ok();
}

// Refuses what the models with experts do not have.
Status CheckPlain(const HfConfig& config) {
  for (const ConfigKeys key : {fields::kSharedCaches, ConfigKeys{"hidden_size_per_layer_input"}}) {
    SHARD_TRY(const uint32_t count, config.U32(key));
    if (count != 0)
      return OtherRope(config, *key.begin(), "0, as in models with experts", Cat(count));
  }
  SHARD_TRY(const std::optional<bool> wide, config.FindBool(fields::kDoubleWidth));
  if (wide.value_or(false)) return OtherRope(config, "use_double_wide_mlp", "false", "true");
  return Ok();
}

Status AddHeads(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const std::vector<bool> windowed, ReadWindowed(config, shape, fields::kLayerTypes));
  SHARD_TRY(const uint32_t full_size, config.U32(fields::kGlobalHeadSize));
  SHARD_TRY(const std::optional<uint32_t> full, config.FindU32(fields::kGlobalKeyHeads));
  const uint32_t full_heads = full.value_or(shape.kv_heads);
  SHARD_CHECK(CheckKeyHeads(config, fields::kGlobalKeyHeads, shape.heads, full_heads));
  keys.I32s("attention.head_count_kv", ByWindow(windowed, shape.kv_heads, full_heads));
  keys.Bools("attention.sliding_window_pattern", windowed);
  for (const auto& [name, size] : {std::pair("attention.key_length", full_size),
                                   std::pair("attention.value_length", full_size),
                                   std::pair("attention.key_length_swa", shape.head_size),
                                   std::pair("attention.value_length_swa", shape.head_size),
                                   std::pair("rope.dimension_count", full_size),
                                   std::pair("rope.dimension_count_swa", shape.head_size)}) {
    keys.U32(name, size);
  }
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckPlain(config));
  SHARD_CHECK(AddHeads(config, shape, keys));
  SHARD_CHECK(AddRopes(config, keys));
  SHARD_CHECK(AddWindowKey(config, keys));
  keys.U32("attention.shared_kv_layers", 0);
  keys.U32("embedding_length_per_layer_input", 0);
  SHARD_TRY(const std::optional<float> cap, config.FindF32({"final_logit_softcapping"}));
  if (cap.value_or(0) != 0) keys.F32("final_logit_softcapping", *cap);
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  return Ok();
}

// Only layers with full attention may use their keys as values.
Status CheckValues(const HfConfig& config, const HfShape& shape,
                   const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(const std::vector<bool> windowed, ReadWindowed(config, shape, fields::kLayerTypes));
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : tensors) names.insert(tensor.name);
  for (size_t layer = 0; layer < windowed.size(); ++layer) {
    const std::string value = Cat("blk.", layer, ".attn_v.weight");
    if (!windowed[layer] || names.contains(value)) continue;
    return Error{Code::kCorrupt, Cat(config.where(), ": layer ", layer, ": expected ", value,
                                     ", as layers with a window have, found none")};
  }
  return Ok();
}

Status AddGemmaTokenizerKeys(const TokenizerFiles& /*files*/, const Vocabulary& /*vocabulary*/,
                             GgufMetadata& metadata) {
  metadata.Set("tokenizer.ggml.add_space_prefix", GgufValue::Bool(false));
  metadata.Set("tokenizer.ggml.add_bos_token", GgufValue::Bool(true));
  return Ok();
}

void AddNormRows(HfFamily& family) {
  const std::pair<const char*, const char*> norms[] = {
      {"input_layernorm", "attn_norm"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"post_attention_layernorm", "post_attention_norm"},
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
      {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
      {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
      {"post_feedforward_layernorm", "post_ffw_norm"}};
  for (const auto& [source, target] : norms)
    family.rows.push_back(
        {Cat("layers.{L}.", source, ".weight"), Cat("blk.{L}.", target, ".weight")});
}

void AddBlockRows(HfFamily& family) {
  const std::string from = "layers.{L}.", to = "blk.{L}.";
  for (const char* part : {"q", "k", "v"}) {
    family.rows.push_back(
        {Cat(from, "self_attn.", part, "_proj.weight"), Cat(to, "attn_", part, ".weight")});
    family.rows.back().optional = part[0] == 'v';
  }
  family.rows.push_back({from + "self_attn.o_proj.weight", to + "attn_output.weight"});
  for (const char* part : {"gate", "up", "down"})
    family.rows.push_back(
        {Cat(from, "mlp.", part, "_proj.weight"), Cat(to, "ffn_", part, ".weight")});
  family.rows.push_back({from + "router.proj.weight", to + "ffn_gate_inp.weight"});
  family.rows.push_back({from + "router.scale", to + "ffn_gate_inp.scale"});
  family.rows.push_back({from + "router.per_expert_scale", to + "ffn_down_exps.scale"});
  family.rows.back().part = Part::kExpert;
  AddExpertRows(family, "layers.{L}.experts.", {"gate_proj", "up_proj", "down_proj"});
  AddFusedExpertRows(family, "layers.{L}.experts.");
  AddOptionalRow(family, from + "layer_scalar", to + "layer_output_scale.weight");
}

}  // namespace

Result<GgufModel> ConvertGemma4Moe(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = "gemma4";
  family.activations = {"gelu_pytorch_tanh"};
  family.keys = AddKeys;
  family.rope_tensors = FactorsOfFullLayers;
  family.check = CheckValues;
  family.vocabulary = ReadCharacterBpe;
  family.tokenizer_keys = AddGemmaTokenizerKeys;
  AddModelRows(family);
  AddNormRows(family);
  AddBlockRows(family);
  return ConvertHf(model, family, options);
}

}  // namespace moepack
