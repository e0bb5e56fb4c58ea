// Qwen1.5-MoE and Qwen2-57B-A14B: a shared expert with its own gate; the chosen weights are not
// normalised. Names: transformers (Qwen2Moe), llama.cpp's tensor map.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Qwen2MoeFamily() {
  Family family;
  family.name = "qwen2-moe";
  family.architectures = {"Qwen2MoeForCausalLM"};
  family.model_types = {"qwen2_moe"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = false};
  family.facts = {.square_heads = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddQwenMoe(family, "layers.{L}.");
  family.promise = {
      .complete = true, .attention_biases = {fields::kJoinedBias, true}, .output_bias = false};
  return family;
}

}  // namespace moepack
