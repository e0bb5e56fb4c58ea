// Kimi-K2.5 and K2.6: DeepSeek-V3 under "language_model.", with a vision tower. Only the routed
// experts are int4 (weight_packed, weight_scale, weight_shape per projection) or NVFP4. Names:
// config and ModelOpt's lists; the triples as in the index of Gemma-4 int4.
#include "libshard/families/deepseek2.h"
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"

namespace moepack::kimi_k25 {
namespace {

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {
      .gating = Gating::kSigmoid, .normalize = true, .scale = 2.5, .bias = RouterBias::kSelection};
  family.facts = {.shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddDeepseekMoe(family, "layers.{L}.");
  AddSelectionBias(family, "layers.{L}.mlp.gate.e_score_correction_bias");
  AddMtpExtras(family, "layers.{L}.");
  AddTowers(family);
  family.cards = CardConvention::kWithoutEmbedding;
  family.promise = {.complete = true};
  return family;
}

constexpr std::string_view kArchitectures[] = {"KimiK25ForConditionalGeneration"};
constexpr std::string_view kModelTypes[] = {"kimi_k25"};

constexpr ConfigDefault kDefaults[] = {
    {kKimi},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"kimi-k2.5", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .architecture = "deepseek2",
    .convert = deepseek_v3::Convert,
};

}  // namespace moepack::kimi_k25
