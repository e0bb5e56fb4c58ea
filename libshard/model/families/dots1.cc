// dots.llm1: DeepSeek-V3's MoE with ordinary attention; its config calls sigmoid scores "noaux_tc".
// Names: transformers (Dots1), llama.cpp's tensor map.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Dots1Family() {
  Family family;
  family.name = "dots1";
  family.architectures = {"Dots1ForCausalLM"};
  family.model_types = {"dots1"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  family.promise = {.complete = true, .output_bias = false, .query_key_norms = {{}, true}};
  return family;
}

}  // namespace moepack
