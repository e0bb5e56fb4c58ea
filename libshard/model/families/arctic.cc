// Snowflake Arctic: 128 experts beside a dense residual_mlp in every layer; layers without experts
// have block_sparse_moe.mlp. Names: the published model code, llama.cpp's tensor map.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family ArcticFamily() {
  Family family;
  family.name = "arctic";
  family.architectures = {"ArcticForCausalLM"};
  family.model_types = {"arctic"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.square_heads = true, .plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.block_sparse_moe.gate");
  AddExperts(family, "layers.{L}.block_sparse_moe.", kW123);
  AddDenseMlp(family, "layers.{L}.block_sparse_moe.mlp.", kW123);
  AddDenseMlp(family, "layers.{L}.residual_mlp.", kW123);
  return family;
}

}  // namespace moepack
