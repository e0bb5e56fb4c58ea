// MiniMax-Text-01 and M1: Mixtral's expert names; seven of eight layers have linear attention with
// other names (qkv_proj, output_gate, norm), all inside self_attn. Names: the index of MiniMax-M1.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family MinimaxM1Family() {
  Family family;
  family.name = "minimax-m1";
  family.architectures = {"MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM"};
  family.model_types = {"minimax_m1", "minimax_text_01"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.block_sparse_moe.gate");
  AddExperts(family, "layers.{L}.block_sparse_moe.", kW123);
  return family;
}

}  // namespace moepack
