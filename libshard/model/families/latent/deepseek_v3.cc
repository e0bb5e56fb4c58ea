// DeepSeek-V3, R1, V3.1, V3.2 (its indexer is in self_attn) and Kimi-K2: sigmoid scores and a
// selection bias. The MTP block is one more layer after the last, with its own experts. Names: the
// indexes of two Kimi-K2 derivatives (FP8 with weight_scale_inv, and bf16).
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family DeepseekV3Family() {
  Family family;
  family.name = "deepseek-v3";
  family.architectures = {"DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM"};
  family.model_types = {"deepseek_v3", "deepseek_v32", "kimi_k2"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid,
                    .normalize = true,
                    .scale = 2.5,
                    .groups = 8,
                    .groups_used = 4,
                    .bias = RouterBias::kSelection};
  // Kimi's checkpoints include a copy of DeepSeek's class. No groups are assumed for them: all of
  // Kimi's models have one, and with eight of them different experts would be chosen.
  family.routing_exceptions = {{"kimi",
                                {.gating = Gating::kSigmoid,
                                 .normalize = true,
                                 .scale = 2.5,
                                 .bias = RouterBias::kSelection}}};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddMtpExtras(family, "layers.{L}.");
  family.cards = CardConvention::kWithoutEmbedding;
  family.promise = {.complete = true, .indexed = {"DeepseekV32ForCausalLM"}};
  return family;
}

}  // namespace moepack
