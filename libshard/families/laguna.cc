// Laguna XS and S (poolside): Qwen's expert names, an ungated shared expert, sigmoid scores; the
// selection bias is stored under mlp.gate or under mlp.experts. Packed in bf16, explicit in FP8.
// Names: a published port to llama.cpp; config only here.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::laguna {
namespace {

constexpr const char* kGraph = "laguna";  // general.architecture
constexpr uint32_t kPeriod = 4;           // the first layer of so many has full attention

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddSelectionBias(family, "layers.{L}.mlp.experts.e_score_correction_bias");
  AddQwenMoe(family, "layers.{L}.");
  return family;
}

// Query heads of each layer.
Result<std::vector<uint32_t>> ReadHeads(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(std::vector<uint32_t> heads, config.FindU32s(fields::kHeadsPerLayer));
  if (heads.empty()) heads.assign(shape.layers, shape.heads);
  if (heads.size() != shape.layers) {
    return config.Wrong(*config.Find(fields::kHeadsPerLayer),
                        Cat("one number per layer (", shape.layers, ")"));
  }
  for (const uint32_t count : heads) {
    SHARD_CHECK(CheckKeyHeads(config, fields::kKeyHeads, count, shape.kv_heads));
  }
  return heads;
}

// The width of attention's gates, per head: 1, or that of a head.
Result<uint32_t> GateWidth(const HfConfig& config, const HfShape& shape) {
  const std::optional<HfConfig::Field> field = config.Find({"gating"});
  if (!field) return config.Missing({"gating"}, "the kind of gate behind attention");
  if (*field->value == true || *field->value == "per-head") return 1u;
  if (*field->value == "per-element") return shape.head_size;
  return CannotHold(config, Cat(field->path, ": expected true, per-head or per-element, found ",
                                DescribeJson(*field->value)));
}

// The runtime has a window in all layers but every fourth from the first on, or in none.
Result<bool> HasWindow(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(const std::optional<uint32_t> window, config.FindU32(fields::kWindow));
  if (window.value_or(0) == 0) {
    SHARD_CHECK(CheckFullAttention(config, shape));
    return false;
  }
  SHARD_TRY(const std::vector<bool> windowed, ReadWindowed(config, shape, fields::kLayerTypes));
  for (size_t layer = 0; layer < windowed.size(); ++layer) {
    if (windowed[layer] == (layer % kPeriod != 0)) continue;
    return CannotHold(
        config,
        Cat("layer_types: expected full attention in every fourth layer from the first on, ",
            "as the runtime has it, found ", windowed[layer] ? "a window" : "none", " in layer ",
            layer));
  }
  return true;
}

// What the runtime does not compute.
Status CheckRouter(const HfConfig& config) {
  SHARD_TRY(const std::optional<bool> inputs,
            config.FindBool({"moe_apply_router_weight_on_input"}));
  if (inputs.value_or(false)) {
    return CannotHold(config, "moe_apply_router_weight_on_input: expected false, found true");
  }
  SHARD_TRY(const std::optional<float> cap, config.FindF32({"moe_router_logit_softcapping"}));
  if (cap.value_or(0) == 0) return Ok();
  return CannotHold(config, Cat("moe_router_logit_softcapping: expected 0, found ", *cap));
}

// How many values of a head are rotated in layers of that kind.
Result<uint32_t> Rotated(const HfConfig& config, const HfShape& shape, LayerKind kind) {
  if (kind == LayerKind::kFull && !HasRopeKinds(config))
    return RotatedPart(config, shape.head_size);
  SHARD_TRY(const HfConfig rope, RopeOfKind(config, kind));
  SHARD_TRY(const std::optional<float> part, rope.FindF32(fields::kRotatedPart));
  if (!part) return shape.head_size;
  if (*part > 0 && *part <= 1) return static_cast<uint32_t>(double{*part} * shape.head_size);
  return rope.Wrong(*rope.Find(fields::kRotatedPart), "a number over 0 and up to 1");
}

Status AddAttentionKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const std::vector<uint32_t> heads, ReadHeads(config, shape));
  keys.I32s("attention.head_count", std::vector<int32_t>(heads.begin(), heads.end()));
  SHARD_TRY(const bool window, HasWindow(config, shape));
  SHARD_TRY(const uint32_t rotated, Rotated(config, shape, LayerKind::kFull));
  keys.U32("rope.dimension_count", rotated);
  if (!window) return Ok();
  SHARD_CHECK(AddWindowKey(config, keys));
  SHARD_TRY(const uint32_t window_rotated, Rotated(config, shape, LayerKind::kWindow));
  keys.U32("rope.dimension_count_swa", window_rotated);
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckRouter(config));
  SHARD_CHECK(AddAttentionKeys(config, shape, keys));
  keys.U32("vocab_size", shape.vocabulary);
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedWidth));
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("expert_feed_forward_length", width);
  keys.U32("expert_shared_feed_forward_length", shared);
  keys.U32("leading_dense_block_count", dense);
  return Ok();
}

// The runtime tells a gate per head from one per value by its width.
Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(const std::vector<uint32_t> heads, ReadHeads(config, shape));
  SHARD_TRY(const uint32_t width, GateWidth(config, shape));
  for (const GgufTensor& tensor : tensors) {
    if (!tensor.name.ends_with(".attn_gate.weight")) continue;
    const uint64_t expected = uint64_t{heads[*tensor.layer]} * width;
    if (tensor.shape[0] == expected) continue;
    return Error{Code::kCorrupt,
                 Cat(config.where(), ": layer ", *tensor.layer, ": g_proj: expected ",
                     Plural(expected, "row"), ", as gating says, found ", tensor.shape[0])};
  }
  return CheckLeadingDense(config, shape, /*selection_bias=*/true, tensors);
}

// The end of the assistant's turn is an ordinary token in the files; the runtime must not print it.
Result<Vocabulary> ReadVocabulary(const VocabularyRequest& request) {
  SHARD_TRY(Vocabulary vocabulary, ReadBpe(request));
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.tokens[id] == "</assistant>") vocabulary.types[id] = TokenType::kControl;
  }
  return vocabulary;
}

// Laguna: query heads and ropes that differ between layers with full attention and those with a
// window, a gate behind attention, leading dense layers, sigmoid scores with a selection bias.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "laguna";
  family.all_layers_moe = false;
  family.rope.by_kind = true;
  family.lists_turn_end = true;
  family.keys = AddKeys;
  family.check = Check;
  family.vocabulary = ReadVocabulary;
  AddModelRows(family);
  AddAttentionRows(family);
  AddQueryKeyNormRows(family);
  family.rows.push_back({"layers.{L}.self_attn.g_proj.weight", "blk.{L}.attn_gate.weight"});
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  AddMixedRows(family, {"layers.{L}.mlp.", "gate", "shared_expert"});
  for (const char* at : {"gate", "experts"}) {
    AddOptionalRow(family, Cat("layers.{L}.mlp.", at, ".e_score_correction_bias"),
                   "blk.{L}.exp_probs_b.bias");
  }
  return ConvertHf(model, family, options);
}

// Layers with a window have a rope of their own, which is not stretched.
void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.softplus_gates = true;
  const uint32_t window = keys.Uint("attention.sliding_window", 0);
  if (window == 0) return;
  const uint32_t period = keys.Uint("attention.sliding_window_pattern", kPeriod);
  if (period == 0) keys.Refuse("attention.sliding_window_pattern", "at least 1", "0");
  spec.local_rope.dims = keys.Uint("rope.dimension_count_swa", spec.key_width);
  spec.local_rope.base = keys.Float("rope.freq_base_swa", spec.rope.base);
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    if (period == 0 || layer % period == 0) continue;
    spec.layer[layer].window = window;
    spec.layer[layer].local_rope = true;
  }
}

constexpr std::string_view kArchitectures[] = {"LagunaForCausalLM"};
constexpr std::string_view kModelTypes[] = {"laguna"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' LagunaConfig
    {R"({"rms_norm_eps": 1e-6, "gating": true})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = kSigmoidOfWrittenKeys,
     .window = {{.period = kPeriod, .tokens = 0, .reads_key = true, .full_first = true}}},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Laguna", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"laguna", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::laguna
