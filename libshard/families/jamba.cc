// Jamba: Mamba and attention layers, experts in every second feed_forward, the others dense;
// weights are not normalised. Names: transformers (Jamba), llama.cpp's tensor map.
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack::jamba {
namespace {

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = false};
  family.facts = {.square_heads = true, .plain_width = true};
  AddModel(family);
  AddTrunk(family, "norm", {"final_layernorm.{W}"});
  AddAttention(family, "layers.{L}.");
  AddTrunk(family, "mamba", {"layers.{L}.mamba.{**}"});
  AddRouter(family, "layers.{L}.feed_forward.router");
  AddExperts(family, "layers.{L}.feed_forward.");
  AddDenseMlp(family, "layers.{L}.feed_forward.");
  return family;
}

constexpr std::string_view kArchitectures[] = {"JambaForCausalLM"};
constexpr std::string_view kModelTypes[] = {"jamba"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = "jamba"},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"jamba", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
};

}  // namespace moepack::jamba
