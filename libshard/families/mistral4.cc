// Mistral-Small-4 119B: DeepSeek-V2's names under a Mistral3 wrapper, which dense models use, too,
// so it is recognised by the text model's type. MLX: switch_mlp, weight + scales + biases, MLA as
// embed_q and unembed_out. Names: the index of the MLX 4-bit conversion.
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack {
namespace {

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddTowers(family);
  return family;
}

constexpr std::string_view kArchitectures[] = {"Mistral4ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"mistral4"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = "mistral4"},
};

}  // namespace

constinit const FamilyEntry kMistral4 = {
    .names = {"mistral4", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
};

}  // namespace moepack
