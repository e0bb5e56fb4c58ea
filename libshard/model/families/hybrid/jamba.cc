// Jamba: Mamba and attention layers, experts in every second feed_forward, the others dense;
// weights are not normalised. Names: transformers (Jamba), llama.cpp's tensor map.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family JambaFamily() {
  Family family;
  family.name = "jamba";
  family.architectures = {"JambaForCausalLM"};
  family.model_types = {"jamba"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = false};
  family.facts = {.square_heads = true, .plain_width = true};
  AddModel(family);
  AddTrunk(family, "norm", {"final_layernorm.{W}"});
  AddAttention(family, "layers.{L}.");
  AddTrunk(family, "mamba", {"layers.{L}.mamba.{**}"});
  AddRouter(family, "layers.{L}.feed_forward.router");
  AddExperts(family, "layers.{L}.feed_forward.");
  AddDenseMlp(family, "layers.{L}.feed_forward.");
  return family;
}

}  // namespace moepack
