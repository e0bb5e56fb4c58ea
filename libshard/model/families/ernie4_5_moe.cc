// ERNIE-4.5 (text): two spellings. Hugging Face: mlp.gate [experts, hidden], separate gate and up.
// Paddle, under "ernie.": the router is transposed, [hidden, experts], gate and up are fused per
// expert (up_gate_proj), FP8 weights are called quant_weight. The selection bias is [1, experts] in
// both. Names: an excerpt of the 300B FP8 Paddle index, transformers, llama.cpp's tensor map.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Ernie45MoeFamily() {
  Family family;
  family.name = "ernie4.5-moe";
  family.architectures = {"Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM"};
  family.model_types = {"ernie4_5_moe"};
  family.prefixes = {"model."};
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  constexpr Projections kPaddle = {"", "", "down_proj", "up_gate_proj"};
  AddModel(family);
  AddTrunk(family, "embedding", {"ernie.embed_tokens.{W}"});
  AddTrunk(family, "norm", {"ernie.norm.{W}"});
  AddTrunk(family, "mtp", {"mtp_{**}", "ernie.mtp_{**}"});
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.moe_statics.e_score_correction_bias", -1);
  AddAttention(family, "ernie.layers.{L}.");
  AddRouterTensor(family, "router", "ernie.layers.{L}.mlp.gate.weight", -1);
  AddSelectionBias(family, "ernie.layers.{L}.mlp.moe_statics.e_score_correction_bias", -1);
  AddExplicitExperts(family, "ernie.layers.{L}.mlp.experts.", kPaddle);
  AddSharedExpert(family, "ernie.layers.{L}.mlp.shared_experts.", kPaddle);
  AddDenseMlp(family, "ernie.layers.{L}.mlp.", kPaddle);
  family.cards = CardConvention::kWithoutEmbedding;
  family.promise = {.complete = true, .f32_router = true, .attention_biases = {fields::kBias}};
  return family;
}

}  // namespace moepack
