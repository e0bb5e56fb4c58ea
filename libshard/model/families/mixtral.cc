// Mixtral 8x7B and 8x22B and their fine-tunes: every layer has experts,
// block_sparse_moe.experts.E.{w1,w2,w3}. transformers 5 saves them packed under mlp. Names: index
// files of Mixtral-8x7B and WizardLM-2-8x22B.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family MixtralFamily() {
  Family family;
  family.name = "mixtral";
  family.architectures = {"MixtralForCausalLM"};
  family.model_types = {"mixtral"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.block_sparse_moe.gate");
  AddExperts(family, "layers.{L}.block_sparse_moe.", kW123);
  AddRouter(family, "layers.{L}.mlp.gate");
  AddExperts(family, "layers.{L}.mlp.");
  family.promise = {.complete = true};
  return family;
}

}  // namespace moepack
