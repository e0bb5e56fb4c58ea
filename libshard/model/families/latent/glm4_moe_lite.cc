// GLM-4.7-Flash: GLM's MoE with DeepSeek's MLA; its config does not name the scoring function,
// which is sigmoid. Names: transformers (Glm4MoeLite), llama.cpp.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Glm4MoeLiteFamily() {
  Family family;
  family.name = "glm4-moe-lite";
  family.architectures = {"Glm4MoeLiteForCausalLM"};
  family.model_types = {"glm4_moe_lite"};
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

}  // namespace moepack
