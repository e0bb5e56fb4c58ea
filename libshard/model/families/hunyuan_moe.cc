// Hunyuan-A13B: the router is mlp.gate.wg, the shared expert mlp.shared_mlp; the config gives top-k
// and widths as lists with one entry per layer. Names: llama.cpp's tensor map; config only here.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family HunyuanMoeFamily() {
  Family family;
  family.name = "hunyuan-moe";
  family.architectures = {"HunYuanMoEV1ForCausalLM"};
  family.model_types = {"hunyuan_v1_moe", "hunyuan"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true, .shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.gate.wg");
  AddExperts(family, "layers.{L}.mlp.");
  AddSharedExpert(family, "layers.{L}.mlp.shared_mlp.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  family.promise = {.complete = true,
                    .f32_router = true,
                    .output_bias = false,
                    .query_key_norms = {fields::kQueryKeyNorms},
                    .layer_norms = true};
  return family;
}

}  // namespace moepack
