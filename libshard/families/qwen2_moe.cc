// Qwen1.5-MoE and Qwen2-57B-A14B: a shared expert with its own gate; the chosen weights are not
// normalised. Names: transformers (Qwen2Moe), llama.cpp's tensor map.
#include "libshard/base/text/text.h"
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"
#include "libshard/families/qwen_rows.h"

namespace moepack::qwen2_moe {
namespace {

constexpr const char* kGraph = "qwen2moe";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = false};
  family.facts = {.square_heads = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddQwenMoe(family, "layers.{L}.");
  family.promise = {
      .complete = true, .attention_biases = {fields::kJoinedBias, true}, .output_bias = false};
  return family;
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckSquareHeads(config, shape));
  return AddQwenMoeKeys(config, keys);
}

// Qwen2-MoE (Qwen1.5-MoE, Qwen2-57B-A14B): biases on queries, keys and values, a shared expert with
// a gate, router weights never renormalised.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "qwen2";
  family.needs_output = true;
  family.keys = AddKeys;
  AddModelRows(family);
  AddAttentionRows(family, {.biases = true});
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  AddQwenMoeRows(family, "layers.{L}.");
  return ConvertHf(model, family, options);
}

constexpr std::string_view kArchitectures[] = {"Qwen2MoeForCausalLM"};
constexpr std::string_view kModelTypes[] = {"qwen2_moe"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' Qwen2MoeConfig
    {R"({"rms_norm_eps": 1e-6, "rope_theta": 10000,
        "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSoftmaxPlain, .derives_width = true},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Qwen2-MoE"},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"qwen2-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::qwen2_moe
