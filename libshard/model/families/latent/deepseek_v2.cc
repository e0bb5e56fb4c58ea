// DeepSeek-V2, V2-Lite, V2.5 and the first DeepSeekMoE: softmax over all experts, not normalised;
// MLA is in self_attn. Leading layers are dense. Names: config and llama.cpp's tensor map.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family DeepseekV2Family() {
  Family family;
  family.name = "deepseek-v2";
  family.architectures = {"DeepseekV2ForCausalLM", "DeepseekForCausalLM"};
  family.model_types = {"deepseek_v2", "deepseek"};
  family.prefixes = UsualPrefixes();
  family.routing = {
      .gating = Gating::kSoftmax, .normalize = false, .group_score = GroupScore::kBest};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  family.cards = CardConvention::kWithoutEmbedding;
  family.promise = {.complete = true};
  return family;
}

}  // namespace moepack
