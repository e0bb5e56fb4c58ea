// DBRX: ffn.experts.mlp.{w1,v1,w2} are [experts * ff, hidden], so each expert owns a run of rows
// along axis 0; w1 is the gate, v1 up, w2 down (stored transposed). Counts are under ffn_config.
// Names: llama.cpp's tensor map and the published model code; config only here.
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack::dbrx {
namespace {

Family Table() {
  Family family;
  family.prefixes = {"transformer."};
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true};
  AddTrunk(family, "embedding", {"wte.{W}"});
  AddTrunk(family, "norm", {"norm_f.{W}"});
  AddTrunk(family, "head", {"lm_head.{W}"});
  AddTrunk(family, "attention", {"blocks.{L}.norm_attn_norm.{**}"});
  AddRouter(family, "blocks.{L}.ffn.router.layer");
  for (const auto& [name, role] : {std::pair("w1", "gate"), {"v1", "up"}, {"w2", "down"}}) {
    family.rules.push_back({.pattern = std::string("blocks.{L}.ffn.experts.mlp.") + name,
                            .part = Part::kExpert,
                            .role = role,
                            .expert_axis = 0,
                            .folded = true});
  }
  return family;
}

constexpr std::string_view kArchitectures[] = {"DbrxForCausalLM"};
constexpr std::string_view kModelTypes[] = {"dbrx"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = "dbrx", .routing = kSoftmaxNormalized},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"dbrx", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
};

}  // namespace moepack::dbrx
