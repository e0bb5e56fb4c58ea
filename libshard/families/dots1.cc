// dots.llm1: DeepSeek-V3's MoE with ordinary attention; its config calls sigmoid scores "noaux_tc".
// Names: transformers (Dots1), llama.cpp's tensor map.
#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"

namespace moepack::dots1 {
namespace {

constexpr const char* kGraph = "dots1";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  family.promise = {.complete = true, .output_bias = false, .query_key_norms = {{}, true}};
  return family;
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckFullAttention(config, shape));
  if (shape.kv_heads != shape.heads) {
    return Error{Code::kUnsupported,
                 Cat(config.where(), ": num_key_value_heads: expected ", shape.heads,
                     " as num_attention_heads, the only number that the runtime loads, found ",
                     shape.kv_heads),
                 kNoGgufHint};
  }
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("leading_dense_block_count", dense);
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedExperts));
  keys.U32("expert_shared_count", shared);
  return Ok();
}

Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  return CheckLeadingDense(config, shape, /*selection_bias=*/true, tensors);
}

// dots.llm1: norms on queries and keys, leading dense layers, sigmoid scores with a selection bias,
// shared experts.
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
  AddQueryKeyNormRows(family);
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  AddMixedRows(family, {"layers.{L}.mlp.", "gate", "shared_experts"});
  AddOptionalRow(family, "layers.{L}.mlp.gate.e_score_correction_bias", "blk.{L}.exp_probs_b.bias");
  return ConvertHf(model, family, options);
}

constexpr std::string_view kArchitectures[] = {"Dots1ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"dots1"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' Dots1Config
    {R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "moe_intermediate_size": 1408})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSigmoidOfRequiredKeys},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "dots.llm1"},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"dots1", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::dots1
