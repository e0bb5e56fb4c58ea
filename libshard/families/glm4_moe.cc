// GLM-4.5, 4.6, 4.7 and GLM-4.5V: dense layers first; the MTP block is one more layer after the
// last, with its own experts (model.layers.92 of 92), often in a separate file. Names: the index of
// a 355B merge.
#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/glm.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"

namespace moepack {
namespace {

constexpr const char* kGraph = "glm4moe";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid,
                    .normalize = true,
                    .groups = 1,
                    .groups_used = 1,
                    .bias = RouterBias::kSelection};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddMtpExtras(family, "layers.{L}.");
  AddTowers(family);
  family.cards = CardConvention::kWithoutTables;
  family.promise = {
      .complete = true, .output_bias = false, .query_key_norms = {fields::kQueryKeyNorms}};
  return family;
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const uint32_t rotated, RotatedPart(config, shape.head_size));
  keys.U32("rope.dimension_count", rotated);
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedExperts));
  keys.U32("expert_shared_count", shared);
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("leading_dense_block_count", dense);
  return Ok();
}

Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  return CheckLeadingDense(config, shape, /*selection_bias=*/true, tensors);
}

void AddAttention(HfFamily& family) {
  const auto add = [&](const std::string& source, const std::string& target, bool optional) {
    family.rows.push_back(
        {.source = "layers.{L}." + source, .target = "blk.{L}." + target, .optional = optional});
  };
  add("input_layernorm.weight", "attn_norm.weight", false);
  for (const char* part : {"q", "k", "v"}) {
    add(Cat("self_attn.", part, "_proj.{W}"), Cat("attn_", part, ".{W}"), false);
  }
  add("self_attn.o_proj.weight", "attn_output.weight", false);
  for (const char* part : {"q", "k"}) {
    add(Cat("self_attn.", part, "_norm.weight"), Cat("attn_", part, "_norm.weight"), true);
  }
  add("post_attention_layernorm.weight", "post_attention_norm.weight", false);
}

// GLM-4.5, 4.6 and 4.7: biases on queries, keys and values, norms on some models' queries and keys,
// leading dense layers, sigmoid scores with a selection bias.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.all_layers_moe = false;
  family.keys = AddKeys;
  family.check = Check;
  AddModelRows(family);
  AddAttention(family);
  AddMixedRows(family, {"layers.{L}.mlp.", "gate", "shared_experts"});
  family.rows.push_back({.source = "layers.{L}.mlp.gate.e_score_correction_bias",
                         .target = "blk.{L}.exp_probs_b.bias",
                         .optional = true});
  AddGlmRules(family);
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.second_norm = "post_attention_norm";
  if (keys.Has("rope.dimension_sections"))
    keys.Decline("rotation in sections (GLM-4.5V) does not run in the runtime shim");
}

constexpr std::string_view kArchitectures[] = {"Glm4MoeForCausalLM",
                                               "Glm4vMoeForConditionalGeneration"};
constexpr std::string_view kModelTypes[] = {"glm4_moe", "glm4v_moe", "glm4v_moe_text"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' Glm4MoeConfig
    {R"({"rope_theta": 10000, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-5,
        "first_k_dense_replace": 1, "n_shared_experts": 1})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = false,
                  .reads_gating = true,
                  .reads_weights = true,
                  .writes_false_norm = true}},
     .cards = CardConvention::kWithoutTables},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "GLM-4.5, 4.6, 4.7", Fill},
};

}  // namespace

constinit const FamilyEntry kGlm4Moe = {
    .names = {"glm4-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack
