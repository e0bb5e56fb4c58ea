// Qwen3-MoE: norms on queries and keys, experts in every layer, router weights always renormalised.
#include "libshard/convert/families.h"
#include "libshard/convert/hf_family.h"
#include "libshard/text.h"

namespace shard {
namespace {

constexpr bool kNormalizeByDefault = false;  // transformers' Qwen3MoeConfig

Status AddKeys(const HfConfig& config, const HfShape&, ArchKeys& keys) {
  // The runtime's graph renormalises and reads no key about it.
  SHARD_TRY(const std::optional<bool> normalize, config.FindBool({"norm_topk_prob"}));
  if (!normalize.value_or(kNormalizeByDefault)) {
    return Error{
        Code::kUnsupported,
        Cat(config.where(), ": norm_topk_prob: expected true, which the runtime's ",
            "qwen3moe always does, found ", normalize ? "false" : "none, which means false"),
        "GGUF cannot hold this model; build and shard-experts still split it as safetensors"};
  }
  // Without it the runtime divides feed_forward_length by the number of experts used, which a node
  // with fewer experts changes.
  SHARD_TRY(const uint32_t width, config.U32({"moe_intermediate_size"}));
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
  family.rows.push_back({"layers.{L}.self_attn.q_norm.weight", "blk.{L}.attn_q_norm.weight"});
  family.rows.push_back({"layers.{L}.self_attn.k_norm.weight", "blk.{L}.attn_k_norm.weight"});
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  family.rows.push_back({"layers.{L}.mlp.gate.weight", "blk.{L}.ffn_gate_inp.weight"});
  AddExpertRows(family, "layers.{L}.mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  AddFusedExpertRows(family, "layers.{L}.mlp.experts.");
  return ConvertHf(model, family, options);
}

}  // namespace shard
