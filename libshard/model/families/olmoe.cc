// OLMoE-1B-7B: the names of Qwen3-MoE; the chosen weights are not normalised. Names: transformers
// (Olmoe), llama.cpp's tensor map.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family OlmoeFamily() {
  Family family;
  family.name = "olmoe";
  family.architectures = {"OlmoeForCausalLM"};
  family.model_types = {"olmoe"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = false};
  family.facts = {.all_moe = true, .square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.gate");
  AddExperts(family, "layers.{L}.mlp.");
  family.promise = {
      .complete = true, .output_bias = false, .query_key_norms = {{}, true}, .whole_norms = true};
  return family;
}

}  // namespace moepack
