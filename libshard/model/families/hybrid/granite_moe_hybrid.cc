// Granite 4 hybrid (H-Tiny, H-Small): Granite's MoE between Mamba-2 and attention layers. Names:
// mergekit's template.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family GraniteMoeHybridFamily() {
  Family family;
  family.name = "granite-moe-hybrid";
  family.architectures = {"GraniteMoeHybridForCausalLM"};
  family.model_types = {"granitemoehybrid"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddTrunk(family, "mamba", {"layers.{L}.mamba.{**}"});
  AddGraniteMoe(family, "layers.{L}.");
  return family;
}

}  // namespace moepack
