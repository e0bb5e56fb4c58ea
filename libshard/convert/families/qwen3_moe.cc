// Qwen3-MoE: norms on queries and keys, experts in every layer, router weights always renormalised.
#include "libshard/convert/families/families.h"
#include "libshard/convert/hf_family.h"
#include "libshard/model/config_fields.h"

namespace moepack {
namespace {

Status AddKeys(const HfConfig& config, const HfShape&, ArchKeys& keys) {
  // Without this key the runtime divides feed_forward_length by the number of experts used, which
  // changes on a node with fewer experts.
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  return Ok();
}

}  // namespace

Result<GgufModel> ConvertQwen3Moe(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = "qwen3moe";
  family.pre = "qwen2";
  family.keys = AddKeys;
  AddModelRows(family);
  AddAttentionRows(family);
  AddQueryKeyNormRows(family);
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  family.rows.push_back({"layers.{L}.mlp.gate.weight", "blk.{L}.ffn_gate_inp.weight"});
  AddExpertRows(family, "layers.{L}.mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  AddFusedExpertRows(family, "layers.{L}.mlp.experts.");
  return ConvertHf(model, family, options);
}

}  // namespace moepack
