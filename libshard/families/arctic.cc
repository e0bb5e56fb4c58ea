// Snowflake Arctic: 128 experts beside a dense residual_mlp in every layer; layers without experts
// have block_sparse_moe.mlp. Names: the published model code, llama.cpp's tensor map.
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack::arctic {
namespace {

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.block_sparse_moe.gate");
  AddExperts(family, "layers.{L}.block_sparse_moe.", kW123);
  AddDenseMlp(family, "layers.{L}.block_sparse_moe.mlp.", kW123);
  AddDenseMlp(family, "layers.{L}.residual_mlp.", kW123);
  return family;
}

constexpr std::string_view kArchitectures[] = {"ArcticForCausalLM"};
constexpr std::string_view kModelTypes[] = {"arctic"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = "arctic"},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"arctic", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
};

}  // namespace moepack::arctic
