// MiniMax-M2, M2.5 and M2.7: norms over whole queries and keys, sigmoid scores with a selection
// bias, experts in every layer; w1 is gate, w3 is up, w2 is down.
#include "libshard/convert/families/families.h"
#include "libshard/convert/hf_family.h"
#include "libshard/model/config_fields.h"

namespace moepack {
namespace {

// As in the config class: rotary_dim, otherwise a part of the head, otherwise all of it.
Result<uint32_t> RotatedSize(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(const std::optional<uint32_t> size, config.FindU32({"rotary_dim"}));
  if (size) return *size;
  return RotatedPart(config, shape.head_size);
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const uint32_t rotated, RotatedSize(config, shape));
  keys.U32("rope.dimension_count", rotated);
  SHARD_TRY(const uint32_t width, config.U32(fields::ExpertWidth(config)));
  // The first sizes the experts, the second has to be there.
  keys.U32("feed_forward_length", width);
  keys.U32("expert_feed_forward_length", width);
  return Ok();
}

}  // namespace

Result<GgufModel> ConvertMinimaxM2(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = "minimax-m2";
  family.pre = "minimax-m2";
  family.needs_output = true;
  family.keys = AddKeys;
  AddModelRows(family);
  AddAttentionRows(family);
  AddQueryKeyNormRows(family);
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  family.rows.push_back({"layers.{L}.block_sparse_moe.gate.weight", "blk.{L}.ffn_gate_inp.weight"});
  family.rows.push_back(
      {"layers.{L}.block_sparse_moe.e_score_correction_bias", "blk.{L}.exp_probs_b.bias"});
  AddExpertRows(family, "layers.{L}.block_sparse_moe.experts.", {"w1", "w3", "w2"});
  return ConvertHf(model, family, options);
}

}  // namespace moepack
