// GroveMoE: Qwen3-MoE, and in each layer chunk experts, each of which is added for every chosen
// expert of a pair. They are small and belong to the trunk. Names: modeling_grove_moe of
// GroveMoE-Inst.
#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"

namespace moepack::grovemoe {
namespace {

constexpr const char* kGraph = "grovemoe";  // general.architecture
constexpr uint32_t kPerChunk = 2;           // experts; no config says it
constexpr float kChunkScale = 0.05f;        // nor this

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.square_heads = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.gate");
  // Saved with the model, and used by nothing.
  AddRouterTensor(family, "unused_bias", "layers.{L}.mlp.expert_bias");
  AddExperts(family, "layers.{L}.mlp.");
  for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
    AddTrunk(family, "chunk_experts", {Cat("layers.{L}.mlp.chunk_experts.{N}.", name, ".{W}")});
  }
  AddDenseMlp(family, "layers.{L}.mlp.");
  family.promise = {.query_key_norms = {{}, true}};
  return family;
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  // llama.cpp's converter takes this for the width of a chunk expert, which no config says.
  keys.U32("expert_chunk_feed_forward_length", shape.head_size);
  keys.U32("experts_per_group", kPerChunk);
  keys.F32("expert_group_scale", kChunkScale);
  return Ok();
}

// The keys say nothing that the tensors must not be.
Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(const uint32_t expert_count, config.U32(fields::kExperts));
  for (const GgufTensor& tensor : tensors) {
    if (!tensor.name.ends_with("_chexps.weight")) continue;
    const uint64_t chunks = tensor.shape.front();
    const bool down = tensor.name.ends_with("ffn_down_chexps.weight");
    const uint64_t width = tensor.shape[down ? 2 : 1];
    if (chunks * kPerChunk == expert_count && width == shape.head_size) continue;
    return CannotHold(config,
                      Cat(tensor.name, ": expected chunk experts for ", kPerChunk, " of the ",
                          expert_count, " experts each, of width ", shape.head_size,
                          " (head_dim), found ", chunks, " of width ", width));
  }
  return Ok();
}

// GroveMoE: norms on queries and keys, experts in every layer, router weights always renormalised.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "qwen2";
  family.keys = AddKeys;
  family.check = Check;
  AddModelRows(family);
  AddAttentionRows(family);
  AddQueryKeyNormRows(family);
  const std::string mlp = "layers.{L}.mlp.", to = "blk.{L}.";
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", to + "ffn_norm.weight"});
  family.rows.push_back({mlp + "gate.weight", to + "ffn_gate_inp.weight"});
  family.rows.push_back({mlp + "expert_bias", ""});
  AddExpertRows(family, (mlp + "experts.").c_str(), {"gate_proj", "up_proj", "down_proj"});
  AddFusedExpertRows(family, (mlp + "experts.").c_str());
  for (const char* name : {"gate", "up", "down"}) {
    family.rows.push_back({Cat(mlp, "chunk_experts.{N}.", name, "_proj.weight"),
                           Cat(to, "ffn_", name, "_chexps.weight")});
  }
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.chunks.experts = keys.Required("experts_per_group");
  spec.chunks.scale = keys.RequiredFloat("expert_group_scale");
}

constexpr std::string_view kArchitectures[] = {"GroveMoeForCausalLM"};
constexpr std::string_view kModelTypes[] = {"grove_moe"};

constexpr ConfigDefault kDefaults[] = {
    // configuration_grove_moe.py
    {R"({"num_key_value_heads": 4, "num_experts_per_tok": 8, "rope_theta": 10000.0})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSoftmaxNormalized},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "GroveMoE", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"grovemoe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::grovemoe
