// Gemma-4 26B-A4B: experts are directly under the layer, packed [expert, 2 * ff, hidden] in the
// original and explicit in the int4 release; "mlp" in the same layer is a dense MLP that always
// runs. router.per_expert_scale is indexed by expert, router.scale by hidden channel. Names: the
// index of gemma-4-26B-A4B-it int4; MLX calls the experts switch_glu.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Gemma4MoeFamily() {
  Family family;
  family.name = "gemma4-moe";
  family.architectures = {"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"};
  family.model_types = {"gemma4", "gemma4_text"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true};
  AddModel(family);
  AddTrunk(family, "embedding", {"embed_tokens_per_layer.{W}", "per_layer_{**}"});
  AddAttention(family, "layers.{L}.");
  AddTrunk(family, "norm",
           {"layers.{L}.pre_feedforward_layernorm_{*}.{W}",
            "layers.{L}.post_feedforward_layernorm_{*}.{W}", "layers.{L}.layer_scalar"});
  AddTrunk(family, "embedding",
           {"layers.{L}.per_layer_input_gate.{W}", "layers.{L}.per_layer_projection.{W}"});
  AddRouter(family, "layers.{L}.router.proj");
  AddRouterTensor(family, "expert_scale", "layers.{L}.router.per_expert_scale");
  family.rules.push_back(
      {.pattern = "layers.{L}.router.scale", .part = Part::kRouter, .role = "router_scale"});
  AddExplicitExperts(family, "layers.{L}.experts.");
  AddPackedExperts(family, "layers.{L}.experts.");
  AddPackedExperts(family, "layers.{L}.experts.switch_glu.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  AddTowers(family);
  return family;
}

}  // namespace moepack
