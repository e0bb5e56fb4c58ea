// Granite 3 MoE: packed experts without "experts" in the name, input_linear [expert, 2 * ff,
// hidden] (gate rows, then up rows) and output_linear; the Shared variant adds shared_mlp. Names:
// the index of granite-3.1-1b-a400m-instruct.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family GraniteMoeFamily() {
  Family family;
  family.name = "granite-moe";
  family.architectures = {"GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"};
  family.model_types = {"granitemoe", "granitemoeshared"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddGraniteMoe(family, "layers.{L}.");
  family.promise = {.complete = true};
  return family;
}

}  // namespace moepack
