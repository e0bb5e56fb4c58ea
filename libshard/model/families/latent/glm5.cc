// GLM-5 and 5.1: DeepSeek-V3.2's sparse attention (self_attn.indexer) and MoE; MTP block as one
// more layer. Names: the lists of unquantized modules in GLM-5-NVFP4 and GLM-5.1-FP8.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Glm5Family() {
  Family family;
  family.name = "glm5";
  family.architectures = {"GlmMoeDsaForCausalLM"};
  family.model_types = {"glm_moe_dsa"};
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

}  // namespace moepack
