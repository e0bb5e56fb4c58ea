// Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder: no shared expert (a config may say its width is 0).
// Names: the index of a Qwen3-30B-A3B derivative.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Qwen3MoeFamily() {
  Family family;
  family.name = "qwen3-moe";
  family.architectures = {"Qwen3MoeForCausalLM"};
  family.model_types = {"qwen3_moe"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = false};
  family.facts = {.square_heads = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.gate");
  AddExperts(family, "layers.{L}.mlp.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  family.promise = {.complete = true, .query_key_norms = {{}, true}};
  return family;
}

}  // namespace moepack
