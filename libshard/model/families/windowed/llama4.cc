// Llama-4 Scout and Maverick: packed experts [expert, hidden, 2 * ff] without a leaf; Maverick has
// a dense feed_forward on every second layer; each MoE layer has a shared expert. The sigmoid of
// the chosen logits scales the expert's input. Names: mergekit's template; explicit ones in FP8
// releases.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Llama4Family() {
  Family family;
  family.name = "llama4";
  family.architectures = {"Llama4ForConditionalGeneration", "Llama4ForCausalLM"};
  family.model_types = {"llama4", "llama4_text"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoidAfterTopK, .normalize = false};
  family.facts = {.plain_width = true, .transposed = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.feed_forward.router");
  AddExperts(family, "layers.{L}.feed_forward.");
  AddSharedExpert(family, "layers.{L}.feed_forward.shared_expert.");
  AddDenseMlp(family, "layers.{L}.feed_forward.");
  AddTowers(family);
  family.promise = {.complete = true, .always_shared = true};
  return family;
}

}  // namespace moepack
