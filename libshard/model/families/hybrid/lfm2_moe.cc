// LFM2-8B-A1B: short convolutions between attention layers; the first layers are dense; the
// selection bias is feed_forward.expert_bias. Names: llama.cpp's tensor map, transformers
// (Lfm2Moe).
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Lfm2MoeFamily() {
  Family family;
  family.name = "lfm2-moe";
  family.architectures = {"Lfm2MoeForCausalLM"};
  family.model_types = {"lfm2_moe"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.square_heads = true};
  AddModel(family);
  AddTrunk(family, "norm", {"embedding_norm.{W}"});
  AddAttention(family, "layers.{L}.");
  AddTrunk(family, "attention", {"layers.{L}.conv.{**}"});
  AddRouter(family, "layers.{L}.feed_forward.gate");
  AddSelectionBias(family, "layers.{L}.feed_forward.expert_bias");
  AddExperts(family, "layers.{L}.feed_forward.", kW123);
  AddDenseMlp(family, "layers.{L}.feed_forward.", kW123);
  return family;
}

}  // namespace moepack
