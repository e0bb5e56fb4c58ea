// Ling 2.0 and Ring 2.0 (BailingMoeV2): BailingMoE with sigmoid scores, a selection bias
// mlp.gate.expert_bias, and MTP blocks as layers after the last. Names: llama.cpp's tensor map
// (bailingmoe2).
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family BailingMoeV2Family() {
  Family family;
  family.name = "bailing-moe-v2";
  family.architectures = {"BailingMoeV2ForCausalLM"};
  family.model_types = {"bailing_moe_v2"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddBailingRows(family);
  AddMtpExtras(family, "layers.{L}.");
  family.promise = {
      .output_bias = false, .query_key_norms = {fields::kQueryKeyNorms}, .layer_norms = true};
  return family;
}

}  // namespace moepack
