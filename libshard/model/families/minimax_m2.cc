// MiniMax-M2, M2.5, M2.7: sigmoid scores; the selection bias is under block_sparse_moe, not under
// the gate. The announced MTP modules are not in the files. Names: ModelOpt's list for M2.5,
// llama.cpp's tensor map.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family MinimaxM2Family() {
  Family family;
  family.name = "minimax-m2";
  family.architectures = {"MiniMaxM2ForCausalLM"};
  family.model_types = {"minimax_m2"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.all_moe = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.block_sparse_moe.gate");
  AddSelectionBias(family, "layers.{L}.block_sparse_moe.e_score_correction_bias");
  AddExperts(family, "layers.{L}.block_sparse_moe.", kW123);
  family.cards = CardConvention::kWithoutEmbedding;
  family.promise = {.complete = true,
                    .f32_router = true,
                    .output_bias = false,
                    .query_key_norms = {fields::kQueryKeyNorms, true},
                    .whole_norms = true};
  return family;
}

}  // namespace moepack
