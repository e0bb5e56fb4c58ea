// Gemma-4 26B-A4B: experts are directly under the layer, packed [expert, 2 * ff, hidden] in the
// original and explicit in the int4 release; "mlp" in the same layer is a dense MLP that always
// runs. router.per_expert_scale is indexed by expert, router.scale by hidden channel. Names: the
// index of gemma-4-26B-A4B-it int4; MLX calls the experts switch_glu.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/config_layers.h"
#include "libshard/model/layer_fields.h"

namespace moepack::gemma4_moe {
namespace {

constexpr const char* kGraph = "gemma4";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true};
  AddModel(family);
  AddTrunk(family, "embedding", {"embed_tokens_per_layer.{W}", "per_layer_{**}"});
  AddAttention(family, "layers.{L}.");
  AddTrunk(family, "norm",
           {"layers.{L}.pre_feedforward_layernorm_{*}.{W}",
            "layers.{L}.post_feedforward_layernorm_{*}.{W}", "layers.{L}.layer_scalar"});
  AddTrunk(family, "embedding",
           {"layers.{L}.per_layer_input_gate.{W}", "layers.{L}.per_layer_projection.{W}"});
  AddRouter(family, "layers.{L}.router.proj");
  AddRouterTensor(family, "expert_scale", "layers.{L}.router.per_expert_scale");
  family.rules.push_back(
      {.pattern = "layers.{L}.router.scale", .part = Part::kRouter, .role = "router_scale"});
  AddExplicitExperts(family, "layers.{L}.experts.");
  AddPackedExperts(family, "layers.{L}.experts.");
  AddPackedExperts(family, "layers.{L}.experts.switch_glu.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  AddTowers(family);
  return family;
}

// A divisor so large that no angle is left: llama.cpp's converter writes it for pairs that are not
// rotated.
constexpr float kNoTurn = 1e30f;

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

// Gemma-4 26B-A4B: layers with a window and layers with full attention have different head sizes
// and ropes, and the latter may use their keys as values. Every layer has a dense MLP beside the
// experts, with norms before and after each; the router has a scale for each channel and one for
// each expert.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
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

// Layers with a window have their own sizes of heads and rope.
void ReadWindows(SpecKeys& keys, ModelSpec& spec) {
  const uint32_t window = keys.Required("attention.sliding_window");
  const std::vector<bool> windowed = keys.Flags("attention.sliding_window_pattern", spec.layers);
  if (windowed.empty()) {
    keys.Refuse("attention.sliding_window_pattern", "a list of bools", "none");
    return;
  }
  const uint32_t key = keys.Required("attention.key_length_swa");
  const uint32_t value = keys.Required("attention.value_length_swa");
  spec.local_rope = {};
  spec.local_rope.dims = keys.Uint("rope.dimension_count_swa", key);
  spec.local_rope.base = keys.Float("rope.freq_base_swa", spec.rope.base);
  const uint32_t dims = spec.local_rope.dims;
  if (dims == 0 || dims % 2 != 0 || dims > key)
    keys.Refuse("rope.dimension_count_swa", Cat("an even number up to ", key), Cat(dims));
  for (uint32_t number = 0; number < spec.layers; ++number) {
    if (!windowed[number]) continue;
    LayerSpec& layer = spec.layer[number];
    layer.key_width = key;
    layer.value_width = value;
    layer.window = window;
    layer.local_rope = true;
  }
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  ReadWindows(keys, spec);
  if (keys.Uint("attention.shared_kv_layers", 0) != 0)
    keys.Decline("layers that share keys and values do not run in the runtime shim");
  if (keys.Uint("embedding_length_per_layer_input", 0) != 0)
    keys.Decline("embeddings per layer do not run in the runtime shim");
  if (spec.key_width != spec.value_width)
    keys.Refuse("attention.value_length", Cat(spec.key_width), Cat(spec.value_width));
  spec.attention_scale = 1;
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.width));
  spec.norm_values = true;
  spec.parallel_experts = true;
  spec.activation = spec.expert_activation = Activation::kGelu;
  spec.logit_cap = keys.Float("final_logit_softcapping", 0);
  if (spec.logit_cap < 0)
    keys.Refuse("final_logit_softcapping", "no negative number", Cat(spec.logit_cap));
}

constexpr std::string_view kArchitectures[] = {"Gemma4ForConditionalGeneration",
                                               "Gemma4ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"gemma4", "gemma4_text"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' Gemma4TextConfig. Its defaults for per-layer embeddings are left out: the
    // models with experts have none, and such tensors are refused.
    {R"({"rms_norm_eps": 1e-6, "head_dim": 256, "global_head_dim": 512, "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 0, "tie_word_embeddings": true,
        "hidden_activation": "gelu_pytorch_tanh"})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSoftmaxNormalized},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Gemma-4 with experts", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"gemma4-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::gemma4_moe
