// MiMo-V2-Flash: DeepSeek-V3's MoE without shared experts; attention sinks; MTP blocks
// "model.mtp.layers.M" are dense. Names: config, llama.cpp's tensor map and published readers of
// the checkpoint.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family MimoV2Family() {
  Family family;
  family.name = "mimo-v2";
  family.architectures = {"MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"};
  family.model_types = {"mimo_v2_flash", "mimo_v2"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  AddModel(family);
  for (const char* at : {"layers.{L}.", "mtp.layers.{M}."}) {
    AddAttention(family, at);
    AddDeepseekMoe(family, at);
    AddMtpExtras(family, at);
  }
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddTowers(family);
  return family;
}

}  // namespace moepack
