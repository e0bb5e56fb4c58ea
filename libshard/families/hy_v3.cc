// Hy3 (Hunyuan 3): leading dense layers, sigmoid scores with a selection bias, a shared MLP, norms
// on queries and keys; the MTP block is one more layer after the last. Names: Tencent's own
// converter of the released checkpoints (router.gate, expert_bias, shared_mlp) and a public table
// of their tensors; transformers' HYV3 has mlp.gate and e_score_correction_bias.
#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"

namespace moepack::hy_v3 {
namespace {

constexpr const char* kGraph = "hy_v3";  // general.architecture
// The runtime looks for the selection bias under a name without a suffix.
constexpr const char* kBias = "exp_probs_b";

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  for (const char* router : {"router.gate", "gate"})
    AddRouter(family, Cat("layers.{L}.mlp.", router));
  for (const char* bias : {"expert_bias", "e_score_correction_bias"})
    AddSelectionBias(family, Cat("layers.{L}.mlp.", bias));
  AddExperts(family, "layers.{L}.mlp.");
  for (const char* shared : {"shared_mlp.", "shared_experts."})
    AddSharedExpert(family, Cat("layers.{L}.mlp.", shared));
  AddDenseMlp(family, "layers.{L}.mlp.");
  AddMtpExtras(family, "layers.{L}.");
  return family;
}

// The runtime always has norms on queries and keys, and a bias for choosing.
Status CheckFlags(const HfConfig& config) {
  for (const char* flag : {"qk_norm", "moe_router_use_sigmoid"}) {
    SHARD_TRY(const std::optional<bool> value, config.FindBool({flag}));
    if (!value.value_or(true)) return CannotHold(config, Cat(flag, ": expected true, found false"));
  }
  SHARD_TRY(const std::optional<bool> biased, config.FindBool(fields::kSelectionBias));
  if (biased.value_or(true)) return Ok();
  return CannotHold(config,
                    Cat(config.Find(fields::kSelectionBias)->path, ": expected true, found false"));
}

Status AddKeys(const HfConfig& config, const HfShape&, ArchKeys& keys) {
  SHARD_CHECK(CheckFlags(config));
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  SHARD_TRY(const std::optional<uint32_t> shared, config.FindU32(fields::kSharedExperts));
  uint32_t shared_width = 0;
  if (__builtin_mul_overflow(width, shared.value_or(1), &shared_width) || shared_width == 0) {
    return config.Wrong(*config.Find(fields::kSharedExperts), "at least one shared expert");
  }
  keys.U32("expert_feed_forward_length", width);
  keys.U32("expert_shared_feed_forward_length", shared_width);
  return Ok();
}

// The runtime sees by the tensors which layers are dense.
Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(MoeLayers read, LayersWithExperts(config, shape));
  read.moe.resize(shape.layers + shape.mtp_layers, true);
  return CheckMixedLayers(
      config, {.moe = read.moe, .selection_bias = true, .shared = true, .bias_name = kBias},
      tensors);
}

void AddRows(HfFamily& family) {
  AddModelRows(family);
  AddAttentionRows(family);
  AddQueryKeyNormRows(family);
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  const std::string mlp = "layers.{L}.mlp.";
  AddMixedRows(family, {mlp, "router.gate", "shared_mlp"});
  // The names of transformers.
  AddOptionalRow(family, mlp + "gate.weight", "blk.{L}.ffn_gate_inp.weight");
  for (const char* bias : {"expert_bias", "e_score_correction_bias"})
    AddOptionalRow(family, mlp + bias, Cat("blk.{L}.", kBias));
  for (const char* part : {"gate", "up", "down"}) {
    AddOptionalRow(family, Cat(mlp, "shared_experts.", part, "_proj.weight"),
                   Cat("blk.{L}.ffn_", part, "_shexp.weight"));
  }
  AddNextTokenRows(family);
  family.rows.push_back({.source = "layers.{L}.final_layernorm.weight",
                         .target = "blk.{L}.nextn.shared_head_norm.weight",
                         .optional = true,
                         .mtp = true});
}

// Hy3: as Hunyuan-A13B beside its router, which scores by sigmoid with a selection bias, and its
// norms, which come before the rope. Blocks for multi-token prediction are kept.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "hunyuan";
  family.all_layers_moe = false;
  family.keeps_mtp = true;
  family.keys = AddKeys;
  family.check = Check;
  AddRows(family);
  return ConvertHf(model, family, options);
}

constexpr std::string_view kArchitectures[] = {"HYV3ForCausalLM"};
constexpr std::string_view kModelTypes[] = {"hy_v3"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' HYV3Config
    {R"({"rms_norm_eps": 1e-5, "num_shared_experts": 1, "first_k_dense_replace": 1,
        "rope_theta": 11158840})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSigmoidOfWrittenKeys},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Hy3"},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"hy3", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::hy_v3
