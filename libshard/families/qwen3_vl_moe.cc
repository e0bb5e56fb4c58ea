// Qwen3-VL-30B-A3B and -235B-A22B: the text model of Qwen3-MoE with packed experts [expert, hidden,
// 2 * ff] and no leaf (mlp.experts.gate_up_proj); deepstack lives in visual. Names: the index of
// Qwen3-VL-30B-A3B-Instruct.
#include <nlohmann/json.hpp>

#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"

namespace moepack::qwen3_vl_moe {
namespace {

constexpr const char* kGraph = "qwen3vlmoe";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.square_heads = true, .transposed = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.gate");
  AddExperts(family, "layers.{L}.mlp.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  AddTowers(family);
  family.promise = {.complete = true, .query_key_norms = {{}, true}};
  return family;
}

// How many layers of the vision tower feed layers of the text model, which a runtime that sees
// images must know.
Result<uint32_t> CountDeepstack(const HfConfig& config) {
  const std::optional<HfConfig::Field> vision = config.Find({"vision_config"});
  if (!vision || !vision->value->is_object()) return 0u;
  const char* const field = "deepstack_visual_indexes";
  const auto indexes = vision->value->find(field);
  if (indexes == vision->value->end() || indexes->is_null()) return 0u;
  if (indexes->is_array()) return static_cast<uint32_t>(indexes->size());
  return config.Wrong({&*indexes, vision->path + "." + field}, "a list of layers");
}

Status AddKeys(const HfConfig& config, const HfShape&, ArchKeys& keys) {
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  SHARD_TRY(const uint32_t deepstack, CountDeepstack(config));
  keys.U32("n_deepstack_layers", deepstack);
  return Ok();
}

// The text model of Qwen3-VL: Qwen3-MoE's with packed experts whose matrices are transposed, gate
// and up side by side, and angles in sections that only images tell apart.
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
  const std::string experts = "layers.{L}.mlp.experts.";
  AddExpertRows(family, experts.c_str(), {"gate_proj", "up_proj", "down_proj"});
  const auto add = [&](const char* source, const char* target, ValueRule rule) {
    family.rows.push_back({.source = experts + source, .target = target, .rule = rule});
  };
  add("gate_up_proj", "blk.{L}.ffn_gate_exps.weight", ValueRule::kTransposeFirst);
  add("gate_up_proj", "blk.{L}.ffn_up_exps.weight", ValueRule::kTransposeSecond);
  add("down_proj", "blk.{L}.ffn_down_exps.weight", ValueRule::kTranspose);
  return ConvertHf(model, family, options);
}

constexpr std::string_view kArchitectures[] = {"Qwen3VLMoeForConditionalGeneration"};
constexpr std::string_view kModelTypes[] = {"qwen3_vl_moe", "qwen3_vl_moe_text"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' Qwen3VLMoeTextConfig
    {R"({"rms_norm_eps": 1e-6, "rope_theta": 5000000})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSoftmaxNormalized, .derives_width = true},
};

// The three parts of a text's positions are equal, so its angles are those of plain rope.
constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Qwen3-VL-MoE"},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"qwen3-vl-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::qwen3_vl_moe
