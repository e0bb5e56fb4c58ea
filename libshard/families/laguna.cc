// Laguna XS and S (poolside): Qwen's expert names, an ungated shared expert, sigmoid scores; the
// selection bias is stored under mlp.gate or under mlp.experts. Packed in bf16, explicit in FP8.
// Names: a published port to llama.cpp; config only here.
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack {
namespace {

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddSelectionBias(family, "layers.{L}.mlp.experts.e_score_correction_bias");
  AddQwenMoe(family, "layers.{L}.");
  return family;
}

constexpr std::string_view kArchitectures[] = {"LagunaForCausalLM"};
constexpr std::string_view kModelTypes[] = {"laguna"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = "laguna"},
};

}  // namespace

constinit const FamilyEntry kLaguna = {
    .names = {"laguna", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
};

}  // namespace moepack
