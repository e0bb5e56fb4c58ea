// Qwen3-Next: linear attention in three of four layers, with queries, keys, values and gates
// interleaved by key head; a block for multi-token prediction.
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/qwen_rows.h"

namespace moepack {

Result<GgufModel> ConvertQwen3Next(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = "qwen3next";
  family.pre = "qwen2";
  family.keeps_mtp = true;
  family.heads = ReadQwenHybridHeads;
  family.keys = AddQwenHybridKeys;
  family.check = CheckQwenHybridBlocks;
  AddQwenHybridRows(family);
  const std::string from = "layers.{L}.linear_attn.", to = "blk.{L}.";
  const auto add = [&](const char* source, const char* target, RowOrder order = RowOrder::kAsIs,
                       ValueRule rule = ValueRule::kNone) {
    family.rows.push_back({from + source, to + target, order, /*optional=*/true, rule});
  };
  add("in_proj_qkvz.weight", "attn_qkv.weight", RowOrder::kQkvOfGroups);
  add("in_proj_qkvz.weight", "attn_gate.weight", RowOrder::kZOfGroups);
  add("in_proj_ba.weight", "ssm_ba.weight");
  add("conv1d.weight", "ssm_conv1d.weight", RowOrder::kAsIs, ValueRule::kSqueeze);
  add("A_log", "ssm_a", RowOrder::kAsIs, ValueRule::kMinusExp);
  add("dt_bias", "ssm_dt.bias");
  add("norm.weight", "ssm_norm.weight");
  add("out_proj.weight", "ssm_out.weight");
  return ConvertHf(model, family, options);
}

}  // namespace moepack
