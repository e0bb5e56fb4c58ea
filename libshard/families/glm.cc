#include "libshard/families/glm.h"

#include "libshard/base/text/text.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/model/config_fields.h"

namespace moepack {

void AddGlmRules(HfFamily& family) {
  family.pre = "glm4";
  family.special_texts = {{"bos", "[gMASK]"},
                          {"eot", "<|user|>"},
                          {"unk", "<|endoftext|>"},
                          {"eom", "<|observation|>"}};
  family.keeps_mtp = true;
  AddNextTokenRows(family);
}

namespace {

Status AddGlmKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const uint32_t rotated, RotatedPart(config, shape.head_size));
  keys.U32("rope.dimension_count", rotated);
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedExperts));
  keys.U32("expert_shared_count", shared);
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("leading_dense_block_count", dense);
  return Ok();
}

Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  return CheckLeadingDense(config, shape, /*selection_bias=*/true, tensors);
}

void AddAttention(HfFamily& family) {
  const auto add = [&](const std::string& source, const std::string& target, bool optional) {
    family.rows.push_back(
        {.source = "layers.{L}." + source, .target = "blk.{L}." + target, .optional = optional});
  };
  add("input_layernorm.weight", "attn_norm.weight", false);
  for (const char* part : {"q", "k", "v"}) {
    add(Cat("self_attn.", part, "_proj.{W}"), Cat("attn_", part, ".{W}"), false);
  }
  add("self_attn.o_proj.weight", "attn_output.weight", false);
  for (const char* part : {"q", "k"}) {
    add(Cat("self_attn.", part, "_norm.weight"), Cat("attn_", part, "_norm.weight"), true);
  }
  add("post_attention_layernorm.weight", "post_attention_norm.weight", false);
}

}  // namespace

void AddGlm4Moe(HfFamily& family) {
  family.architecture = "glm4moe";
  family.all_layers_moe = false;
  family.keys = AddGlmKeys;
  family.check = Check;
  AddModelRows(family);
  AddAttention(family);
  AddMixedRows(family, {"layers.{L}.mlp.", "gate", "shared_experts"});
  family.rows.push_back({.source = "layers.{L}.mlp.gate.e_score_correction_bias",
                         .target = "blk.{L}.exp_probs_b.bias",
                         .optional = true});
}

}  // namespace moepack
