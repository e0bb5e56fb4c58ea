// Step-3.5 and 3.7 Flash: packed experts under "moe" (moe.gate_proj.weight [expert, ff, hidden]),
// the selection bias moe.router_bias, the shared expert "share_expert" beside it; MTP blocks are
// dense layers after the last. Quantized releases write moe.experts.E, MLX mlp.switch_mlp. Names:
// published readers of both checkpoints, llama.cpp's tensor map; config only here.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Step3Family() {
  Family family;
  family.name = "step3";
  family.architectures = {"Step3p5ForCausalLM", "Step3p7FlashForCausalLM",
                          "Step3p7ForConditionalGeneration"};
  family.model_types = {"step3p5", "step3p7"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.moe.gate");
  AddSelectionBias(family, "layers.{L}.moe.router_bias");
  AddPackedExperts(family, "layers.{L}.moe.");
  AddExplicitExperts(family, "layers.{L}.moe.experts.");
  AddSharedExpert(family, "layers.{L}.share_expert.");
  AddRouter(family, "layers.{L}.mlp.gate.gate");
  AddSelectionBias(family, "layers.{L}.mlp.gate.router_bias");
  AddPackedExperts(family, "layers.{L}.mlp.switch_mlp.");
  AddSharedExpert(family, "layers.{L}.mlp.share_expert.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  AddMtpExtras(family, "layers.{L}.");
  AddTrunk(family, "mtp", {"layers.{L}.transformer.shared_head.{**}"});
  AddTowers(family);
  return family;
}

}  // namespace moepack
