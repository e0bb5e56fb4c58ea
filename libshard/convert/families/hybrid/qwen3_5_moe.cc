// Qwen3.5 and Qwen3.6 MoE: like Qwen3-Next, but with separate projections for linear attention.
// Everything with one part per value head is stored grouped by key head, but the runtime needs it
// tiled.
#include <array>

#include "libshard/convert/families/families.h"
#include "libshard/convert/families/qwen_rows.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

// What llama.cpp's converter writes for a config without mrope_section.
constexpr std::array<int32_t, 4> kSections = {11, 11, 10, 0};

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const HfConfig rope, config.Rope());
  if (!rope.Has(fields::kSections)) keys.I32s("rope.dimension_sections", kSections);
  return AddQwenHybridKeys(config, shape, keys);
}

}  // namespace

Result<GgufModel> ConvertQwen35Moe(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = "qwen35moe";
  family.pre = "qwen35";
  family.keeps_mtp = true;
  family.heads = ReadQwenHybridHeads;
  family.keys = AddKeys;
  family.check = CheckQwenHybridBlocks;
  AddQwenHybridRows(family);
  const std::string from = "layers.{L}.linear_attn.", to = "blk.{L}.";
  const auto add = [&](const char* source, const char* target, RowOrder order,
                       ValueRule rule = ValueRule::kNone) {
    family.rows.push_back({from + source, to + target, order, /*optional=*/true, rule});
  };
  add("in_proj_qkv.weight", "attn_qkv.weight", RowOrder::kTiledTail);
  add("in_proj_z.weight", "attn_gate.weight", RowOrder::kTiledHeads);
  add("in_proj_b.weight", "ssm_beta.weight", RowOrder::kTiledHeads);
  add("in_proj_a.weight", "ssm_alpha.weight", RowOrder::kTiledHeads);
  add("conv1d.weight", "ssm_conv1d.weight", RowOrder::kTiledTail, ValueRule::kSqueeze);
  add("A_log", "ssm_a", RowOrder::kTiledHeads, ValueRule::kMinusExp);
  add("dt_bias", "ssm_dt.bias", RowOrder::kTiledHeads);
  add("norm.weight", "ssm_norm.weight", RowOrder::kAsIs);
  add("out_proj.weight", "ssm_out.weight", RowOrder::kAsIs, ValueRule::kTiledColumns);
  return ConvertHf(model, family, options);
}

}  // namespace moepack
