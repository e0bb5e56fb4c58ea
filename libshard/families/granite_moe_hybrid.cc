// Granite 4 hybrid (H-Tiny, H-Small): Granite's MoE between Mamba-2 and attention layers. Names:
// mergekit's template.
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack {
namespace {

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddTrunk(family, "mamba", {"layers.{L}.mamba.{**}"});
  AddGraniteMoe(family, "layers.{L}.");
  return family;
}

constexpr std::string_view kArchitectures[] = {"GraniteMoeHybridForCausalLM"};
constexpr std::string_view kModelTypes[] = {"granitemoehybrid"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = "granitehybrid", .routing = kSoftmaxNormalized},
};

}  // namespace

constinit const FamilyEntry kGraniteMoeHybrid = {
    .names = {"granite-moe-hybrid", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
};

}  // namespace moepack
