// GLM-4.5, 4.6, 4.7 and GLM-4.5V: dense layers first; the MTP block is one more layer after the
// last, with its own experts (model.layers.92 of 92), often in a separate file. Names: the index of
// a 355B merge.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Glm4MoeFamily() {
  Family family;
  family.name = "glm4-moe";
  family.architectures = {"Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration"};
  family.model_types = {"glm4_moe", "glm4v_moe", "glm4v_moe_text"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid,
                    .normalize = true,
                    .groups = 1,
                    .groups_used = 1,
                    .bias = RouterBias::kSelection};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddMtpExtras(family, "layers.{L}.");
  AddTowers(family);
  family.cards = CardConvention::kWithoutTables;
  family.promise = {
      .complete = true, .output_bias = false, .query_key_norms = {fields::kQueryKeyNorms}};
  return family;
}

}  // namespace moepack
