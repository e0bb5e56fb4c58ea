// Mistral-Small-4 119B: DeepSeek-V2's names under a Mistral3 wrapper, which dense models use, too,
// so it is recognised by the text model's type. MLX: switch_mlp, weight + scales + biases, MLA as
// embed_q and unembed_out. Names: the index of the MLX 4-bit conversion, public loaders of the FP8
// release.
#include "libshard/families/deepseek2.h"
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack::mistral4 {
namespace {

constexpr const char* kGraph = "mistral4";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddTowers(family);
  return family;
}

// Mistral-Small-4: DeepSeek-V2's attention, softmax over all experts, renormalised. Gate and up of
// the packed experts stay one tensor, as in llama.cpp's converter, which also has no key for
// llama_4_scaling_beta.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  SHARD_TRY(HfFamily family, MakeDeepseek2(model, {.architecture = kGraph, .one_gate_up = true}));
  family.pre = "tekken";
  return ConvertHf(model, family, options);
}

constexpr std::string_view kArchitectures[] = {"Mistral4ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"mistral4"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = {{.gating = Gating::kSoftmax,
                  .normalize = false,
                  .reads_gating = true,
                  .reads_weights = true}}},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Mistral Small 4", FillDeepseek2},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"mistral4", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::mistral4
