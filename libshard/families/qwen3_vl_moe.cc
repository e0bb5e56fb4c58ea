// Qwen3-VL-30B-A3B and -235B-A22B: the text model of Qwen3-MoE with packed experts [expert, hidden,
// 2 * ff] and no leaf (mlp.experts.gate_up_proj); deepstack lives in visual. Names: the index of
// Qwen3-VL-30B-A3B-Instruct.
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack {
namespace {

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.square_heads = true, .transposed = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.gate");
  AddExperts(family, "layers.{L}.mlp.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  AddTowers(family);
  family.promise = {.complete = true, .query_key_norms = {{}, true}};
  return family;
}

constexpr std::string_view kArchitectures[] = {"Qwen3VLMoeForConditionalGeneration"};
constexpr std::string_view kModelTypes[] = {"qwen3_vl_moe", "qwen3_vl_moe_text"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = "qwen3vlmoe", .routing = kSoftmaxNormalized, .derives_width = true},
};

}  // namespace

constinit const FamilyEntry kQwen3VlMoe = {
    .names = {"qwen3-vl-moe", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
};

}  // namespace moepack
