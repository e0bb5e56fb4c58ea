// Qwen3.5 and Qwen3.6 MoE: like Qwen3-Next, but multimodal. Originals are packed [expert, 2 * ff,
// hidden]; REAP-pruned ones are explicit, and their config is flat although the names keep
// "model.language_model.". Names: two REAP indexes, ModelOpt module lists, MLX layout files.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Qwen35MoeFamily() {
  Family family;
  family.name = "qwen3.5-moe";
  family.architectures = {"Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"};
  family.model_types = {"qwen3_5_moe", "qwen3_5_moe_text"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .gated_queries = true};
  AddModel(family);
  AddQwenMtp(family);
  for (const char* at : {"layers.{L}.", "mtp.layers.{M}."}) {
    AddAttention(family, at);
    AddQwenMoe(family, at);
  }
  AddTrunk(family, "attention", {"layers.{L}.linear_attn.{**}"});
  AddTowers(family);
  family.promise = {.complete = true, .packed = true, .query_key_norms = {{}, true}};
  return family;
}

}  // namespace moepack
