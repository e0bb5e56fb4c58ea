// MiniMax-Text-01 and M1: Mixtral's expert names; seven of eight layers have linear attention with
// other names (qkv_proj, output_gate, norm), all inside self_attn. Names: the index of MiniMax-M1.
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack::minimax_m1 {
namespace {

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.block_sparse_moe.gate");
  AddExperts(family, "layers.{L}.block_sparse_moe.", kW123);
  return family;
}

constexpr std::string_view kArchitectures[] = {"MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"minimax_m1", "minimax_text_01"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = "minimax-01"},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"minimax-m1", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
};

}  // namespace moepack::minimax_m1
