// Phi-3.5-MoE, Phi-mini-MoE and Phi-tiny-MoE: Mixtral's names; norms and lm_head carry a bias.
// Names: the index of Phi-tiny-MoE.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family PhimoeFamily() {
  Family family;
  family.name = "phimoe";
  family.architectures = {"PhiMoEForCausalLM", "PhimoeForCausalLM"};
  family.model_types = {"phimoe"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.block_sparse_moe.gate");
  AddExperts(family, "layers.{L}.block_sparse_moe.", kW123);
  family.promise = {.complete = true, .norm_biases = true};
  return family;
}

}  // namespace moepack
