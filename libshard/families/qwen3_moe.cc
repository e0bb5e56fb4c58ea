// Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder: no shared expert (a config may say its width is 0).
// Names: the index of a Qwen3-30B-A3B derivative.
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"

namespace moepack::qwen3_moe {
namespace {

constexpr const char* kGraph = "qwen3moe";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = false};
  family.facts = {.square_heads = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.gate");
  AddExperts(family, "layers.{L}.mlp.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  family.promise = {.complete = true, .query_key_norms = {{}, true}};
  return family;
}

Status AddKeys(const HfConfig& config, const HfShape&, ArchKeys& keys) {
  // Without this key the runtime divides feed_forward_length by the number of experts used, which
  // changes on a node with fewer experts.
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  return Ok();
}

// Qwen3-MoE: norms on queries and keys, experts in every layer, router weights always renormalised.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "qwen2";
  family.keys = AddKeys;
  AddModelRows(family);
  AddAttentionRows(family);
  AddQueryKeyNormRows(family);
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  family.rows.push_back({"layers.{L}.mlp.gate.weight", "blk.{L}.ffn_gate_inp.weight"});
  AddExpertRows(family, "layers.{L}.mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  AddFusedExpertRows(family, "layers.{L}.mlp.experts.");
  return ConvertHf(model, family, options);
}

constexpr std::string_view kArchitectures[] = {"Qwen3MoeForCausalLM"};
constexpr std::string_view kModelTypes[] = {"qwen3_moe"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' Qwen3MoeConfig
    {R"({"num_key_value_heads": 4, "num_experts_per_tok": 8, "rope_theta": 10000.0})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSoftmaxNormalized, .derives_width = true},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Qwen3-MoE"},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"qwen3-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::qwen3_moe
