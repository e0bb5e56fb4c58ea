// Kimi-K3: Kimi delta attention (KDA) and latent attention, each with a gate; residuals that are
// weighed by attention over earlier ones; experts of block_sparse_moe in a smaller space between
// two projections. The config nests a KimiLinear. Names: public readers of moonshotai/Kimi-K3.
#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/deepseek2.h"
#include "libshard/families/families.h"
#include "libshard/families/kda_rows.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::kimi_k3 {
namespace {

constexpr const char* kGraph = "kimi-k3";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.shared_of_experts = true};
  const std::string at = "layers.{L}.", moe = at + "block_sparse_moe.";
  AddModel(family);
  AddAttention(family, at);
  AddTrunk(family, "residual",
           {at + "self_attention_res_{*}.{W}", at + "mlp_res_{*}.{W}", "output_attn_res_{*}.{W}"});
  AddRouter(family, moe + "gate");
  AddSelectionBias(family, moe + "gate.e_score_correction_bias");
  AddTrunk(family, "latent",
           {moe + "routed_expert_down_proj.{W}", moe + "routed_expert_up_proj.{W}",
            moe + "routed_expert_norm.{W}"});
  AddExplicitExperts(family, moe + "experts.", kW123);
  AddSharedExpert(family, moe + "shared_experts.");
  AddDenseMlp(family, at + "mlp.");
  AddTowers(family);
  return family;
}

// What the runtime's graph has built in.
Status CheckGraph(const HfConfig& config, const HfConfig& linear) {
  for (const char* field : {"mla_use_nope", "mla_use_output_gate", "latent_moe_use_norm"}) {
    SHARD_TRY(const std::optional<bool> on, config.FindBool({field}));
    if (on.value_or(true)) continue;
    return CannotHold(
        config, Cat(field, ": expected true, the only one that the runtime has, ", "found false"));
  }
  SHARD_TRY(const std::optional<bool> full, linear.FindBool({"use_full_rank_gate"}));
  if (full.value_or(false)) return Ok();
  return CannotHold(config, Cat("linear_attn_config.use_full_rank_gate: expected true, the only ",
                                "one that the runtime has, found ", full ? "false" : "none"));
}

Status AddAttentionKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const HfConfig linear, config.Within(*fields::kLinearSettings.begin()));
  SHARD_CHECK(CheckGraph(config, linear));
  SHARD_TRY(const uint32_t heads, linear.U32({"num_heads"}));
  if (heads != shape.heads) {
    return CannotHold(config, Cat("linear_attn_config.num_heads: expected num_attention_heads (",
                                  shape.heads, "), found ", heads));
  }
  KdaSizes sizes;
  SHARD_TRY(sizes.head_size, linear.U32(fields::kHeadSize));
  SHARD_TRY(sizes.kernel, linear.U32({"short_conv_kernel_size"}));
  SHARD_TRY(sizes.lower_bound, linear.F32({"gate_lower_bound"}));
  SHARD_TRY(const std::vector<uint32_t> kda, KdaLayers(config));
  SHARD_TRY(const Mla mla, ReadMla(config));
  AddMlaKeys(mla, shape, keys);
  AddKdaKeys(sizes, kda, shape, keys);
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  keys.U32("vocab_size", shape.vocabulary);
  SHARD_CHECK(AddAttentionKeys(config, shape, keys));
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedExperts));
  SHARD_TRY(const uint32_t latent, config.U32(fields::kLatentWidth));
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("expert_feed_forward_length", width);
  keys.U32("expert_shared_count", shared);
  keys.U32("expert_latent_length", latent);
  keys.U32("leading_dense_block_count", dense);
  SHARD_TRY(const float beta, config.F32({"activation_situ_beta"}));
  SHARD_TRY(const float linear_beta, config.F32({"activation_situ_linear_beta"}));
  SHARD_TRY(const uint32_t block, config.U32({"attn_res_block_size"}));
  keys.F32("activation.situ_beta", beta);
  keys.F32("activation.situ_linear_beta", linear_beta);
  keys.U32("attn_res.block_size", block);
  return Ok();
}

Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  return CheckLeadingDense(config, shape, /*selection_bias=*/true, tensors);
}

// No rotation at all.
Result<std::vector<RopeTensor>> NoRope(const HfConfig&) { return std::vector<RopeTensor>(); }

void AddMixerRows(HfFamily& family, const std::vector<uint32_t>& kda, bool query_rank) {
  const std::string at = "layers.{L}.self_attn.", to = "blk.{L}.";
  AddKdaRows(family, kda, at);
  // More values than heads are stored.
  AddKdaRow(family, kda, at + "A_log", to + "ssm_a", ValueRule::kMinusExp);
  family.rows.back().order = RowOrder::kFirstOfHeads;
  AddKdaRow(family, kda, at + "f_a_proj.weight", to + "ssm_f_a.weight");
  AddKdaRow(family, kda, at + "f_b_proj.weight", to + "ssm_f_b.weight");
  AddKdaRow(family, kda, at + "g_proj.weight", to + "ssm_g.weight");
  AddKdaRow(family, kda, at + "o_proj.weight", to + "attn_output.weight");
  AddMlaRows(family,
             {.at = at, .output = "o_proj", .query_rank = query_rank, .blocks = {.numbers = kda}});
  family.rows.push_back({.source = at + "g_proj.weight",
                         .target = to + "attn_gate.weight",
                         .blocks = {.numbers = kda}});
}

// The weights by which earlier residuals are attended to: the norm's times the projection's.
void AddScoreRows(HfFamily& family, const std::string& source, const std::string& target) {
  for (const char* factor : {"_norm.weight", "_proj.weight"}) {
    family.rows.push_back(
        {.source = source + factor, .target = target, .rule = ValueRule::kFactor});
  }
}

void AddExpertSpaceRows(HfFamily& family) {
  const std::string at = "layers.{L}.block_sparse_moe.", to = "blk.{L}.";
  const size_t first = family.rows.size();
  const auto add = [&](const std::string& source, const std::string& target) {
    AddOptionalRow(family, at + source, to + target);
  };
  add("gate.weight", "ffn_gate_inp.weight");
  add("gate.e_score_correction_bias", "exp_probs_b.bias");
  add("routed_expert_down_proj.weight", "ffn_routed_down.weight");
  add("routed_expert_norm.weight", "ffn_routed_norm.weight");
  add("routed_expert_up_proj.weight", "ffn_routed_up.weight");
  AddExpertRows(family, (at + "experts.").c_str(), {"w1", "w3", "w2"});
  for (const char* name : {"gate", "up", "down"}) {
    add(Cat("shared_experts.", name, "_proj.weight"), Cat("ffn_", name, "_shexp.weight"));
    AddOptionalRow(family, Cat("layers.{L}.mlp.", name, "_proj.weight"),
                   Cat(to, "ffn_", name, ".weight"));
  }
  for (size_t i = first; i < family.rows.size(); ++i) family.rows[i].optional = true;
}

// Kimi-K3, the text model: KDA and latent attention without rotation, sigmoid scores with a
// selection bias, experts in a latent space.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  SHARD_TRY(const HfConfig config,
            HfConfig::Parse(model.config_path().string(), model.config_text()));
  SHARD_TRY(const Mla mla, ReadMla(config));
  SHARD_TRY(const std::vector<uint32_t> kda, KdaLayers(config));
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "kimi-k2";
  family.vocabulary = ReadTiktokenOrBpe;
  family.eos_of_config = true;
  family.activations = {"situ"};
  family.all_layers_moe = false;
  family.heads = ReadMlaHeads;
  family.keys = AddKeys;
  family.rope_tensors = NoRope;
  family.check = Check;
  AddModelRows(family);
  const std::string at = "layers.{L}.", to = "blk.{L}.";
  family.rows.push_back({at + "input_layernorm.weight", to + "attn_norm.weight"});
  AddMixerRows(family, kda, mla.query_rank > 0);
  family.rows.push_back({at + "post_attention_layernorm.weight", to + "ffn_norm.weight"});
  AddScoreRows(family, at + "self_attention_res", to + "attn_res_score.weight");
  AddScoreRows(family, at + "mlp_res", to + "ffn_res_score.weight");
  AddScoreRows(family, "output_attn_res", "output_res_score.weight");
  AddExpertSpaceRows(family);
  return ConvertHf(model, family, options);
}

// Latent attention without rotation, each layer's attention with a gate per value; residual
// attention; a bounded activation.
void Fill(SpecKeys& keys, ModelSpec& spec) {
  FillDeepseek2(keys, spec);
  FillKda(keys, spec);
  spec.kda.negative_rates = true;
  for (LayerSpec& layer : spec.layer) layer.rope = false;
  spec.gated_attention = true;
  spec.residual_block = keys.Uint("attn_res.block_size", 0);
  spec.expert_space = keys.Uint("expert_latent_length", 0);
  spec.space_tensors = "ffn_routed";
  const float bound = keys.RequiredFloat("activation.situ_beta");
  const float up_bound = keys.RequiredFloat("activation.situ_linear_beta");
  if (!(bound > 0)) keys.Refuse("activation.situ_beta", "a number above 0", Cat(bound));
  spec.activation = spec.expert_activation =
      Activation(Activation::kSitu, bound, std::max(up_bound, 0.0f));
}

constexpr std::string_view kArchitectures[] = {"KimiK3ForConditionalGeneration"};
constexpr std::string_view kModelTypes[] = {"kimi_k3"};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSigmoidOfKeys},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Kimi-K3", Fill, /*layers_without_heads=*/true},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"kimi-k3", kArchitectures, kModelTypes},
    .table = Table,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::kimi_k3
