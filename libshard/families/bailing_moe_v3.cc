// Ling 3.0 (BailingMoeV3): most layers have Kimi delta attention (KDA), the last of each group and
// those after the last whole group latent attention, both in "attention"; experts as in Ling 2.0.
// Names: public readers of Ling-3.0-flash, llama.cpp's tensor map (bailingmoe3).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/deepseek2.h"
#include "libshard/families/families.h"
#include "libshard/families/kda_rows.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::bailing_moe_v3 {
namespace {

constexpr const char* kGraph = "bailingmoe3";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.shared_of_experts = true};
  AddBailingRows(family);
  AddMtpExtras(family, "layers.{L}.");
  return family;
}

// What llama.cpp's converter insists on, because its graph computes nothing else.
Status CheckGraph(const HfConfig& config) {
  for (const char* field : {"no_kda_lora", "kda_safe_gate"}) {
    SHARD_TRY(const std::optional<bool> on, config.FindBool({field}));
    if (!on.value_or(false)) {
      return CannotHold(config, Cat(field, ": expected true, the only one that the runtime has, ",
                                    "found ", on ? "false" : "none"));
    }
  }
  SHARD_CHECK(CheckWord(config, {"gated_attention_proj_granularity_type"}, {"head_wise"}));
  SHARD_TRY(const std::optional<bool> interleave, config.FindBool({"rope_interleave"}));
  if (!interleave.value_or(true))
    return CannotHold(config, "rope_interleave: expected true, found false");
  return Ok();
}

bool AllNull(const HfConfig& config, const char* field) {
  const auto list = config.Find({field});
  return list && list->value->is_array() &&
         std::all_of(list->value->begin(), list->value->end(),
                     [](const Json& limit) { return limit.is_null(); });
}

Status AddAttentionKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  KdaSizes sizes{.head_size = shape.head_size};
  SHARD_TRY(sizes.kernel, config.U32(fields::kShortKernel));
  SHARD_TRY(sizes.lower_bound, config.F32({"kda_lower_bound"}));
  SHARD_TRY(const std::vector<uint32_t> kda, KdaLayers(config));
  SHARD_TRY(const Mla mla, ReadMla(config));
  AddMlaKeys(mla, shape, keys);
  AddKdaKeys(sizes, kda, shape, keys);
  keys.Bool("kda.safe_gate", true);
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckGraph(config));
  keys.U32("vocab_size", shape.vocabulary);
  SHARD_CHECK(AddAttentionKeys(config, shape, keys));
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedWidth));
  SHARD_TRY(const uint32_t count, config.U32(fields::kSharedExperts));
  keys.U32("expert_feed_forward_length", width);
  keys.U32("expert_shared_feed_forward_length", shared);
  keys.U32("expert_shared_count", count);
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("leading_dense_block_count", dense);
  for (const auto& [field, key] :
       {std::pair("expert_swiglu_limit_list", "swiglu_clamp_exp"),
        std::pair("share_expert_swiglu_limit_list", "swiglu_clamp_shexp")}) {
    if (!AllNull(config, field)) SHARD_CHECK(AddLimits(config, shape, field, key, keys));
  }
  return Ok();
}

Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  return CheckLeadingDense(config, shape, /*selection_bias=*/true, tensors);
}

void AddMixerRows(HfFamily& family, const std::vector<uint32_t>& kda, bool query_rank) {
  const std::string at = "layers.{L}.attention.", to = "blk.{L}.";
  AddKdaRows(family, kda, at);
  AddKdaRow(family, kda, at + "A_log", to + "ssm_a", ValueRule::kExpColumn);
  AddKdaRow(family, kda, at + "f_proj.weight", to + "ssm_f_a.weight");
  AddKdaRow(family, kda, at + "g_proj.weight", to + "ssm_g_a.weight");
  AddKdaRow(family, kda, at + "o_proj.weight", to + "attn_output.weight");
  AddMlaRows(family,
             {.at = at, .output = "dense", .query_rank = query_rank, .blocks = {.numbers = kda}});
  family.rows.push_back({.source = at + "g_proj.weight",
                         .target = to + "attn_gate.weight",
                         .blocks = {.numbers = kda}});
}

void AddRows(HfFamily& family, const std::vector<uint32_t>& kda, bool query_rank) {
  const auto add = [&](const std::string& source, const std::string& target) {
    family.rows.push_back({source + ".weight", target + ".weight"});
  };
  const std::string at = "layers.{L}.", to = "blk.{L}.";
  add("word_embeddings", "token_embd");
  add("norm", "output_norm");
  add("lm_head", "output");
  add(at + "input_layernorm", to + "attn_norm");
  AddMixerRows(family, kda, query_rank);
  add(at + "post_attention_layernorm", to + "ffn_norm");
  AddMixedRows(family, {at + "mlp.", "gate", "shared_experts"});
  AddOptionalRow(family, at + "mlp.gate.expert_bias", to + "exp_probs_b.bias");
  AddNextTokenRows(family);
  add(at + "final_layernorm", to + "layer_output_norm");
  family.rows.back().mtp = true;
}

// Ling 3.0: the decay of KDA is bounded from below and has no low rank; heads of latent attention
// have one gate each; sigmoid scores with groups and a selection bias; limits of the activation by
// layer; blocks for multi-token prediction, which have latent attention.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  SHARD_TRY(const HfConfig config,
            HfConfig::Parse(model.config_path().string(), model.config_text()));
  SHARD_TRY(const Mla mla, ReadMla(config));
  SHARD_TRY(const std::vector<uint32_t> kda, KdaLayers(config));
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "bailingmoe2";
  family.needs_output = true;
  family.all_layers_moe = false;
  family.keeps_mtp = true;
  family.heads = ReadMlaHeads;
  family.keys = AddKeys;
  family.check = Check;
  AddRows(family, kda, mla.query_rank > 0);
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  FillDeepseek2(keys, spec);
  FillKda(keys, spec);
  if (!keys.Bool("kda.safe_gate", true))
    keys.Decline("kda.safe_gate: expected true, the only one that runs here, found false");
  ReadLimits(keys, "swiglu_clamp_exp", &LayerSpec::expert_limit, spec);
  ReadLimits(keys, "swiglu_clamp_shexp", &LayerSpec::mlp_limit, spec);
}

constexpr std::string_view kArchitectures[] = {"BailingMoeV3ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"bailing_moe_v3"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSigmoidOfKeys, .needs_mtp = true},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Ling 3.0", Fill, /*layers_without_heads=*/true},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"bailing-moe-v3", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::bailing_moe_v3
