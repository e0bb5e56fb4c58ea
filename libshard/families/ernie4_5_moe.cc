// ERNIE-4.5 (text): two spellings. Hugging Face: mlp.gate [experts, hidden], separate gate and up.
// Paddle, under "ernie.": the router is transposed, [hidden, experts], gate and up are fused per
// expert (up_gate_proj), FP8 weights are called quant_weight. The selection bias is [1, experts] in
// both. Names: an excerpt of the 300B FP8 Paddle index, transformers, llama.cpp's tensor map.
#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::ernie4_5_moe {
namespace {

constexpr const char* kGraph = "ernie4_5-moe";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = {"model."};
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  constexpr Projections kPaddle = {"", "", "down_proj", "up_gate_proj"};
  AddModel(family);
  AddTrunk(family, "embedding", {"ernie.embed_tokens.{W}"});
  AddTrunk(family, "norm", {"ernie.norm.{W}"});
  AddTrunk(family, "mtp", {"mtp_{**}", "ernie.mtp_{**}"});
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.moe_statics.e_score_correction_bias", -1);
  AddAttention(family, "ernie.layers.{L}.");
  AddRouterTensor(family, "router", "ernie.layers.{L}.mlp.gate.weight", -1);
  AddSelectionBias(family, "ernie.layers.{L}.mlp.moe_statics.e_score_correction_bias", -1);
  AddExplicitExperts(family, "ernie.layers.{L}.mlp.experts.", kPaddle);
  AddSharedExpert(family, "ernie.layers.{L}.mlp.shared_experts.", kPaddle);
  AddDenseMlp(family, "ernie.layers.{L}.mlp.", kPaddle);
  family.cards = CardConvention::kWithoutEmbedding;
  family.promise = {.complete = true, .f32_router = true, .attention_biases = {fields::kBias}};
  return family;
}

constexpr uint32_t kUsualShared = 2;  // if there are shared experts and the config does not say

// The runtime has no last layer with experts: all from the first one on have them.
Result<MoeRule> RuleOf(const HfConfig& config) {
  MoeRule rule;
  SHARD_TRY(rule.first, config.U32(fields::kMoeStart));
  SHARD_TRY(rule.step, config.U32(fields::kMoeInterval));
  if (rule.step == 0) return config.Wrong(*config.Find(fields::kMoeInterval), "at least 1");
  return rule;
}

template <bool shared>
Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const MoeRule rule, RuleOf(config));
  SHARD_CHECK(LayersByRule(config, shape, rule));
  keys.U32("interleave_moe_layer_step", rule.step);
  keys.U32("leading_dense_block_count", rule.first);
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  if (!shared) return Ok();
  SHARD_TRY(const std::optional<uint32_t> stated, config.FindU32(fields::kSharedExperts));
  const uint32_t count = stated.value_or(kUsualShared);
  keys.U32("expert_shared_count", count);
  // llama.cpp's converter divides the width of dense layers by the number of key heads, which is
  // the same number for the one model that it was written for.
  uint32_t all = 0;
  if (__builtin_mul_overflow(width, count, &all)) {
    return config.Wrong(*config.Find(fields::kSharedExperts), "a number of experts");
  }
  keys.U32("expert_shared_feed_forward_length", all);
  return Ok();
}

template <bool shared>
Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  MixedLayers layers;
  layers.shared = shared;
  SHARD_TRY(const MoeRule rule, RuleOf(config));
  SHARD_TRY(layers.moe, LayersByRule(config, shape, rule));
  SHARD_TRY(const std::optional<bool> bias, config.FindBool(fields::kSelectionBias));
  layers.selection_bias = bias.value_or(true);
  return CheckMixedLayers(config, layers, tensors);
}

bool HasSharedExperts(const MoeModel& model) {
  return std::any_of(model.tensors().begin(), model.tensors().end(),
                     [](const ModelTensor& tensor) { return tensor.part == Part::kShared; });
}

// ERNIE-4.5 (text): experts from some layer on, possibly only in every n-th; softmax scores with a
// selection bias of shape [1, experts]; shared experts only in the smaller model. Its rope rotates
// neighbouring values, so no rows move.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  const bool shared = HasSharedExperts(model);
  HfFamily family;
  family.architecture = kGraph;
  family.all_layers_moe = false;
  family.keys = shared ? AddKeys<true> : AddKeys<false>;
  family.check = shared ? Check<true> : Check<false>;
  family.vocabulary = ReadSentencePieceOrBpe;
  family.tokenizer_keys = AddSpacePrefix;
  AddModelRows(family);
  AddAttentionRows(family);
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  AddMixedRows(family, {"layers.{L}.mlp.", "gate", "shared_experts"});
  AddOptionalRow(family, "layers.{L}.mlp.moe_statics.e_score_correction_bias",
                 "blk.{L}.exp_probs_b.bias");
  family.rows.back().rule = ValueRule::kFlatten;
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys&, ModelSpec& spec) { spec.rope.pairing = Pairing::kNeighbours; }

constexpr std::string_view kArchitectures[] = {"Ernie4_5_MoeForCausalLM",
                                               "Ernie4_5_MoEForCausalLM"};
constexpr std::string_view kModelTypes[] = {"ernie4_5_moe"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' Ernie4_5_MoeConfig
    {R"({"rope_theta": 500000, "rms_norm_eps": 1e-5, "moe_intermediate_size": 1536,
        "moe_layer_start_index": 1, "moe_layer_interval": 1})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSoftmaxNormalized, .cards = CardConvention::kWithoutEmbedding},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "ERNIE-4.5", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"ernie4.5-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::ernie4_5_moe
