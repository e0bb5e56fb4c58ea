// MiniMax-M3: three dense layers, then experts with a shared expert under block_sparse_moe; sparse
// attention (index_q_proj) inside self_attn; a vision tower. Names: the module list of
// MiniMax-M3-NVFP4.
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
  AddRouter(family, "layers.{L}.block_sparse_moe.gate");
  AddSelectionBias(family, "layers.{L}.block_sparse_moe.e_score_correction_bias");
  AddSelectionBias(family, "layers.{L}.block_sparse_moe.gate.e_score_correction_bias");
  AddExperts(family, "layers.{L}.block_sparse_moe.", kW123);
  AddSharedExpert(family, "layers.{L}.block_sparse_moe.shared_experts.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  AddTowers(family);
  AddTrunk(family, "vision", {"patch_merge_mlp.{**}"});
  family.promise = {.f32_router = true};
  return family;
}

constexpr std::string_view kArchitectures[] = {"MiniMaxM3ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"minimax_m3"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = "minimax-m3"},
};

}  // namespace

constinit const FamilyEntry kMinimaxM3 = {
    .names = {"minimax-m3", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
};

}  // namespace moepack
