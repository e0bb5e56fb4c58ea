// Qwen3.5 and Qwen3.6 MoE: like Qwen3-Next, but multimodal. Originals are packed [expert, 2 * ff,
// hidden]; REAP-pruned ones are explicit, and their config is flat although the names keep
// "model.language_model.". Names: two REAP indexes, ModelOpt module lists, MLX layout files.
#include <array>

#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"
#include "libshard/families/qwen_rows.h"
#include "libshard/model/layer_fields.h"

namespace moepack::qwen3_5_moe {
namespace {

constexpr const char* kGraph = "qwen35moe";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .gated_queries = true};
  AddModel(family);
  AddQwenMtp(family);
  for (const char* at : {"layers.{L}.", "mtp.layers.{M}."}) {
    AddAttention(family, at);
    AddQwenMoe(family, at);
  }
  AddTrunk(family, "attention", {"layers.{L}.linear_attn.{**}"});
  AddTowers(family);
  family.promise = {.complete = true, .packed = true, .query_key_norms = {{}, true}};
  return family;
}

// What llama.cpp's converter writes for a config without mrope_section.
constexpr std::array<int32_t, 4> kSections = {11, 11, 10, 0};

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const HfConfig rope, config.Rope());
  if (!rope.Has(fields::kSections)) keys.I32s("rope.dimension_sections", kSections);
  return AddQwenHybridKeys(config, shape, keys);
}

// Qwen3.5 and Qwen3.6 MoE: like Qwen3-Next, but with separate projections for linear attention.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "qwen35";
  family.keeps_mtp = true;
  family.heads = ReadQwenHybridHeads;
  family.keys = AddKeys;
  family.check = CheckQwenHybridBlocks;
  AddQwenHybridRows(family);
  AddQwenTiledRows(family);
  return ConvertHf(model, family, options);
}

constexpr std::string_view kArchitectures[] = {"Qwen3_5MoeForConditionalGeneration",
                                               "Qwen3_5MoeForCausalLM"};
constexpr std::string_view kModelTypes[] = {"qwen3_5_moe", "qwen3_5_moe_text"};

constexpr ConfigDefault kDefaults[] = {
    {kQwenHybrid},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = kSoftmaxNormalized,
     .derives_width = true,
     .full_interval = 4,
     .needs_mtp = true},
};

void FillTiled(SpecKeys& keys, ModelSpec& spec) {
  FillQwenHybrid(keys, spec);
  spec.delta.tiled = true;
}

constexpr RuntimeFamily kRuns[] = {
    // Its rope has sections for pictures, which rotate text like a single one.
    {kGraph, "Qwen3.5-MoE", FillTiled},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"qwen3.5-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::qwen3_5_moe
