// GLM-5 and 5.1: DeepSeek-V3.2's sparse attention (self_attn.indexer) and MoE; MTP block as one
// more layer. Names: the lists of unquantized modules in GLM-5-NVFP4 and GLM-5.1-FP8.
#include "libshard/families/deepseek2.h"
#include "libshard/families/families.h"
#include "libshard/families/glm.h"
#include "libshard/families/name_rows.h"

namespace moepack {
namespace {

constexpr const char* kGraph = "glm-dsa";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddMtpExtras(family, "layers.{L}.");
  family.cards = CardConvention::kWithoutTables;
  family.promise = {.complete = true, .indexer = true};
  return family;
}

// GLM-5 and 5.1: DeepSeek-V3.2's attention with an indexer, GLM's tokens, and blocks for
// multi-token prediction, which are kept.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  SHARD_TRY(
      HfFamily family,
      MakeDeepseek2(model, {.architecture = "glm-dsa", .indexer = true, .selection_bias = true}));
  AddGlmRules(family);
  return ConvertHf(model, family, options);
}

constexpr std::string_view kArchitectures[] = {"GlmMoeDsaForCausalLM"};
constexpr std::string_view kModelTypes[] = {"glm_moe_dsa"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' GlmMoeDsaConfig
    {R"({"rope_theta": 1000000, "rms_norm_eps": 1e-5, "n_shared_experts": 1,
        "first_k_dense_replace": 3})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = false,
                  .reads_gating = true,
                  .reads_weights = true}},
     .cards = CardConvention::kWithoutTables},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "GLM-5 in short contexts", FillDeepseek2Short},
};

}  // namespace

constinit const FamilyEntry kGlm5 = {
    .names = {"glm5", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack
