// dots.llm1: norms on queries and keys, leading dense layers, sigmoid scores with a selection bias,
// shared experts.
#include "libshard/base/text/text.h"
#include "libshard/convert/block_kinds.h"
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/mixed_layers.h"
#include "libshard/convert/hf_family.h"
#include "libshard/model/config_fields.h"

namespace moepack {
namespace {

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckFullAttention(config, shape));
  if (shape.kv_heads != shape.heads) {
    return Error{Code::kUnsupported,
                 Cat(config.where(), ": num_key_value_heads: expected ", shape.heads,
                     " as num_attention_heads, the only number that the runtime loads, found ",
                     shape.kv_heads),
                 kNoGgufHint};
  }
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("leading_dense_block_count", dense);
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedExperts));
  keys.U32("expert_shared_count", shared);
  return Ok();
}

Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  return CheckLeadingDense(config, shape, /*selection_bias=*/true, tensors);
}

}  // namespace

Result<GgufModel> ConvertDots1(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = "dots1";
  family.pre = "qwen2";
  family.needs_output = true;
  family.all_layers_moe = false;
  family.keys = AddKeys;
  family.check = Check;
  AddModelRows(family);
  AddAttentionRows(family);
  AddQueryKeyNormRows(family);
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  AddMixedRows(family, {"layers.{L}.mlp.", "gate", "shared_experts"});
  AddOptionalRow(family, "layers.{L}.mlp.gate.e_score_correction_bias", "blk.{L}.exp_probs_b.bias");
  return ConvertHf(model, family, options);
}

}  // namespace moepack
