// Ling 2.0 and Ring 2.0 (BailingMoeV2): BailingMoE with sigmoid scores, a selection bias
// mlp.gate.expert_bias, and MTP blocks as layers after the last. Names: llama.cpp's tensor map
// (bailingmoe2).
#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"

namespace moepack::bailing_moe_v2 {
namespace {

constexpr const char* kGraph = "bailingmoe2";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddBailingRows(family);
  AddMtpExtras(family, "layers.{L}.");
  family.promise = {
      .output_bias = false, .query_key_norms = {fields::kQueryKeyNorms}, .layer_norms = true};
  return family;
}

// The total width of the shared experts; the runtime multiplies the key's value by their number.
Result<uint32_t> SharedWidth(const HfConfig& config, uint32_t width, uint32_t count) {
  const ConfigKeys key = fields::kSharedWidth;
  SHARD_TRY(const std::optional<uint32_t> all, config.FindU32(key));
  if (!all || count == 0) return width;
  if (*all % count == 0) return *all / count;
  return config.Wrong(*config.Find(key), Cat("a multiple of ", count, " (num_shared_experts)"));
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckSquareHeads(config, shape));
  SHARD_TRY(const uint32_t rotated, RotatedPart(config, shape.head_size));
  keys.U32("rope.dimension_count", rotated);
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("leading_dense_block_count", dense);
  keys.U32("vocab_size", shape.vocabulary);
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  SHARD_TRY(const uint32_t count, config.U32(fields::kSharedExperts));
  SHARD_TRY(const uint32_t shared, SharedWidth(config, width, count));
  keys.U32("expert_shared_feed_forward_length", shared);
  keys.U32("expert_shared_count", count);
  return Ok();
}

Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  return CheckLeadingDense(config, shape, /*selection_bias=*/true, tensors);
}

// Ling 2.0 and Ring 2.0 (BailingMoeV2): norms on queries and keys, half of each head rotated,
// leading dense layers, sigmoid scores with groups and a selection bias. The runtime takes queries,
// keys and values in one projection, as they are stored.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "bailingmoe2";
  family.needs_output = true;
  family.all_layers_moe = false;
  family.keeps_mtp = true;
  family.keys = AddKeys;
  family.check = Check;
  const auto add = [&](const std::string& source, const std::string& target) {
    family.rows.push_back({source + ".weight", target + ".weight"});
  };
  add("word_embeddings", "token_embd");
  add("norm", "output_norm");
  add("lm_head", "output");
  const std::string at = "layers.{L}.", to = "blk.{L}.";
  add(at + "input_layernorm", to + "attn_norm");
  add(at + "attention.query_key_value", to + "attn_qkv");
  add(at + "attention.query_layernorm", to + "attn_q_norm");
  add(at + "attention.key_layernorm", to + "attn_k_norm");
  add(at + "attention.dense", to + "attn_output");
  add(at + "post_attention_layernorm", to + "ffn_norm");
  AddMixedRows(family, {"layers.{L}.mlp.", "gate", "shared_experts"});
  AddOptionalRow(family, "layers.{L}.mlp.gate.expert_bias", "blk.{L}.exp_probs_b.bias");
  AddNextTokenRows(family);
  add(at + "final_layernorm", to + "layer_output_norm");
  family.rows.back().mtp = true;
  return ConvertHf(model, family, options);
}

constexpr std::string_view kArchitectures[] = {"BailingMoeV2ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"bailing_moe_v2"};

constexpr ConfigDefault kDefaults[] = {
    // configuration_bailing_moe_v2.py of Ling-mini-2.0
    {R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "first_k_dense_replace": 0,
        "num_shared_experts": 1, "partial_rotary_factor": 0.5})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSigmoidOfRequiredKeys, .needs_mtp = true},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Ling 2.0"},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"bailing-moe-v2", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::bailing_moe_v2
