// Mistral-Small-4 119B: DeepSeek-V2's names under a Mistral3 wrapper, which dense models use, too,
// so it is recognised by the text model's type. MLX: switch_mlp, weight + scales + biases, MLA as
// embed_q and unembed_out. Names: the index of the MLX 4-bit conversion.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Mistral4Family() {
  Family family;
  family.name = "mistral4";
  family.architectures = {"Mistral4ForCausalLM"};
  family.model_types = {"mistral4"};
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

}  // namespace moepack
