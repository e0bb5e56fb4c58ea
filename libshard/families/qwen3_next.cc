// Qwen3-Next-80B-A3B and Qwen3-Coder-Next: three of four layers have linear_attn instead of
// self_attn; the MTP block "mtp.layers.0" has its own MoE. Names: transformers (Qwen3Next),
// llama.cpp.
#include "libshard/families/families.h"
#include "libshard/families/name_rows.h"
#include "libshard/families/qwen_rows.h"

namespace moepack::qwen3_next {
namespace {

constexpr const char* kGraph = "qwen3next";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.gated_queries = true};
  AddModel(family);
  AddQwenMtp(family);
  for (const char* at : {"layers.{L}.", "mtp.layers.{M}."}) {
    AddAttention(family, at);
    AddQwenMoe(family, at);
  }
  AddTrunk(family, "attention", {"layers.{L}.linear_attn.{**}"});
  family.promise = {.complete = true, .joined_linear = true, .query_key_norms = {{}, true}};
  return family;
}

// Qwen3-Next: linear attention in three of four layers, with queries, keys, values and gates
// interleaved by key head; a block for multi-token prediction.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
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

constexpr std::string_view kArchitectures[] = {"Qwen3NextForCausalLM"};
constexpr std::string_view kModelTypes[] = {"qwen3_next"};

constexpr ConfigDefault kDefaults[] = {
    {kQwenHybrid},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = kSoftmaxNormalized,
     .derives_width = true,
     .full_interval = 4,
     .needs_mtp = true},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Qwen3-Next", FillQwenHybrid},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"qwen3-next", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::qwen3_next
