// Qwen2-MoE (Qwen1.5-MoE, Qwen2-57B-A14B): biases on queries, keys and values, a shared expert with
// a gate, router weights never renormalised.
#include "libshard/base/text/text.h"
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/qwen_rows.h"

namespace moepack {
namespace {

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckSquareHeads(config, shape));
  return AddQwenMoeKeys(config, keys);
}

}  // namespace

Result<GgufModel> ConvertQwen2Moe(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = "qwen2moe";
  family.pre = "qwen2";
  family.needs_output = true;
  family.keys = AddKeys;
  AddModelRows(family);
  AddAttentionRows(family, {.biases = true});
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  AddQwenMoeRows(family, "layers.{L}.");
  return ConvertHf(model, family, options);
}

}  // namespace moepack
