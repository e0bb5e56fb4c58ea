// DeepSeek-V4: names of DeepSeek's own code (layers.L.ffn, w1/w2/w3, companions called "scale").
// The first layers route by the token's id: gate.tid2eid [vocabulary, top-k] holds expert ids; the
// others add gate.bias only for the choice, which makes it a selection bias. Names: ModelOpt's
// module list and published readers of the checkpoint; config only here.
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack {
namespace {

Family Table() {
  Family family;
  family.prefixes = {"model."};
  family.routing = {.gating = Gating::kSqrtSoftplus, .normalize = true};
  family.facts = {.all_moe = true, .shared_of_experts = true};
  AddTrunk(family, "embedding", {"embed.{W}", "mtp.{M}.emb.{**}"});
  AddTrunk(family, "norm", {"norm.{W}"});
  AddTrunk(family, "head", {"head.{W}", "hc_head_{**}", "mtp.{M}.head.{**}"});
  for (const std::string at : {"layers.{L}.", "mtp.{M}."}) {
    AddTrunk(family, "norm", {at + "{*}norm.{W}"});
    AddTrunk(family, "attention", {at + "attn.{**}"});
    // Hyper-connections: how the residual streams are mixed, per block.
    AddTrunk(family, "residual", {at + "hc_{**}"});
    AddSelectionBias(family, at + "ffn.gate.bias");
    AddRouter(family, at + "ffn.gate");
    family.rules.push_back({.pattern = at + "ffn.gate.tid2eid",
                            .part = Part::kRouter,
                            .role = "expert_ids",
                            .holds_expert_ids = true});
    AddExplicitExperts(family, at + "ffn.experts.", kW123);
    AddSharedExpert(family, at + "ffn.shared_experts.", kW123);
  }
  AddTrunk(family, "mtp", {"mtp.{M}.e_proj.{W}", "mtp.{M}.h_proj.{W}"});
  return family;
}

constexpr std::string_view kArchitectures[] = {"DeepseekV4ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"deepseek_v4"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = "deepseek4"},
};

}  // namespace

constinit const FamilyEntry kDeepseekV4 = {
    .names = {"deepseek-v4", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
};

}  // namespace moepack
