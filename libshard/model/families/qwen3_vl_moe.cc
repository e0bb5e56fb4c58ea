// Qwen3-VL-30B-A3B and -235B-A22B: the text model of Qwen3-MoE with packed experts [expert, hidden,
// 2 * ff] and no leaf (mlp.experts.gate_up_proj); deepstack lives in visual. Names: the index of
// Qwen3-VL-30B-A3B-Instruct.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Qwen3VlMoeFamily() {
  Family family;
  family.name = "qwen3-vl-moe";
  family.architectures = {"Qwen3VLMoeForConditionalGeneration"};
  family.model_types = {"qwen3_vl_moe", "qwen3_vl_moe_text"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.square_heads = true, .transposed = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.gate");
  AddExperts(family, "layers.{L}.mlp.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  AddTowers(family);
  family.promise = {.complete = true, .query_key_norms = {{}, true}};
  return family;
}

}  // namespace moepack
