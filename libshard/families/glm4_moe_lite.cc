// GLM-4.7-Flash: GLM's MoE with DeepSeek's MLA; its config does not name the scoring function,
// which is sigmoid. Names: transformers (Glm4MoeLite), llama.cpp.
#include "libshard/families/deepseek2.h"
#include "libshard/families/families.h"
#include "libshard/families/glm.h"
#include "libshard/families/name_rows.h"

namespace moepack::glm4_moe_lite {
namespace {

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid,
                    .normalize = true,
                    .scale = 1.8,
                    .groups = 1,
                    .groups_used = 1,
                    .bias = RouterBias::kSelection};
  family.facts = {.shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddMtpExtras(family, "layers.{L}.");
  family.cards = CardConvention::kWithoutTables;
  family.promise = {.complete = true};
  return family;
}

// GLM-4.7-Flash: DeepSeek's attention and GLM's tokenizer.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  SHARD_TRY(HfFamily family, MakeDeepseek2(model, {.selection_bias = true}));
  AddGlmRules(family);
  return ConvertHf(model, family, options);
}

constexpr std::string_view kArchitectures[] = {"Glm4MoeLiteForCausalLM"};
constexpr std::string_view kModelTypes[] = {"glm4_moe_lite"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' Glm4MoeLiteConfig, whose mlp_layer_types begin with one "dense"
    {R"({"rope_theta": 10000, "rms_norm_eps": 1e-5, "n_shared_experts": 1,
        "first_k_dense_replace": 1})"},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"glm4-moe-lite", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .architecture = "deepseek2",
    .convert = Convert,
};

}  // namespace moepack::glm4_moe_lite
