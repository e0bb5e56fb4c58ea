// Qwen3-Omni-30B-A3B: only the thinker, a Qwen3-MoE, is split. The talker is a small MoE with its
// own layer numbering; it stays whole in the trunk, as does the speech decoder code2wav. Names:
// transformers (Qwen3OmniMoe).
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack::qwen3_omni_moe {
namespace {

Family Table() {
  Family family;
  family.prefixes = {"thinker.", "thinker.model.", "model."};
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.square_heads = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.gate");
  AddExperts(family, "layers.{L}.mlp.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  AddTowers(family);
  AddTrunk(family, "audio", {"talker.{**}", "code2wav.{**}"});
  family.promise = {.complete = true, .query_key_norms = {{}, true}};
  return family;
}

constexpr std::string_view kArchitectures[] = {"Qwen3OmniMoeForConditionalGeneration",
                                               "Qwen3OmniMoeThinkerForConditionalGeneration"};
constexpr std::string_view kModelTypes[] = {"qwen3_omni_moe", "qwen3_omni_moe_thinker"};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"qwen3-omni-moe", kArchitectures, kModelTypes},
    .table = Table,
};

}  // namespace moepack::qwen3_omni_moe
