// LFM2-8B-A1B: short convolutions between attention layers; the first layers are dense; the
// selection bias is feed_forward.expert_bias. Names: llama.cpp's tensor map, transformers
// (Lfm2Moe).
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack {
namespace {

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.square_heads = true};
  AddModel(family);
  AddTrunk(family, "norm", {"embedding_norm.{W}"});
  AddAttention(family, "layers.{L}.");
  AddTrunk(family, "attention", {"layers.{L}.conv.{**}"});
  AddRouter(family, "layers.{L}.feed_forward.gate");
  AddSelectionBias(family, "layers.{L}.feed_forward.expert_bias");
  AddExperts(family, "layers.{L}.feed_forward.", kW123);
  AddDenseMlp(family, "layers.{L}.feed_forward.", kW123);
  return family;
}

constexpr std::string_view kArchitectures[] = {"Lfm2MoeForCausalLM"};
constexpr std::string_view kModelTypes[] = {"lfm2_moe"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = "lfm2moe"},
};

}  // namespace

constinit const FamilyEntry kLfm2Moe = {
    .names = {"lfm2-moe", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
};

}  // namespace moepack
