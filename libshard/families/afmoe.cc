// AFMoE (Arcee's Trinity): norms before and after attention and the feed-forward part, a gate for
// attention's results, three layers of four with a window. Names: transformers (Afmoe).
#include <cmath>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::afmoe {
namespace {

constexpr const char* kGraph = "afmoe";  // general.architecture
constexpr uint32_t kPeriod = 4;          // its last layer has full attention, without rotation

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.router.gate");
  AddSelectionBias(family, "layers.{L}.mlp.expert_bias");
  AddExperts(family, "layers.{L}.mlp.");
  AddSharedExpert(family, "layers.{L}.mlp.shared_experts.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  family.promise = {.query_key_norms = {{}, true}};
  return family;
}

// What the runtime does whatever the file says.
Status CheckBuiltIn(const HfConfig& config, const HfShape& shape) {
  SHARD_CHECK(CheckWindowPeriod(config, shape, kPeriod));
  SHARD_TRY(const auto period, config.FindU32({"global_attn_every_n_layers"}));
  if (period.value_or(kPeriod) != kPeriod) {
    return CannotHold(config, Cat("global_attn_every_n_layers: expected ", kPeriod,
                                  ", as the runtime has it, found ", *period));
  }
  SHARD_TRY(const auto scales, config.FindBool({"mup_enabled"}));
  if (scales.value_or(false)) return Ok();
  return CannotHold(config, Cat("mup_enabled: expected true, as the runtime scales the embedding, ",
                                "found ", scales ? "false" : "none"));
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckBuiltIn(config, shape));
  keys.U32("vocab_size", shape.vocabulary);
  SHARD_TRY(const uint32_t rotated, RotatedPart(config, shape.head_size));
  keys.U32("rope.dimension_count", rotated);
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedExperts));
  keys.U32("expert_shared_count", shared);
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("leading_dense_block_count", dense);
  return AddWindowKey(config, keys);
}

Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(MixedLayers layers, LeadingDenseLayers(config, shape));
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedExperts));
  layers.selection_bias = true;
  layers.shared = shared > 0;
  return CheckMixedLayers(config, layers, tensors);
}

// Trinity: norms of queries and keys, leading dense layers, sigmoid scores with a selection bias.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "afmoe";
  family.all_layers_moe = false;
  family.keys = AddKeys;
  family.check = Check;
  family.tokenizer_keys = AddSpacePrefix;
  AddModelRows(family);
  AddAttentionRows(family);
  AddQueryKeyNormRows(family);
  const std::string at = "layers.{L}.", to = "blk.{L}.";
  family.rows.push_back({at + "self_attn.gate_proj.weight", to + "attn_gate.weight"});
  const std::pair<const char*, const char*> norms[] = {
      {"post_attention_layernorm", "post_attention_norm"},
      {"pre_mlp_layernorm", "ffn_norm"},
      {"post_mlp_layernorm", "post_ffw_norm"}};
  for (const auto& [source, target] : norms)
    family.rows.push_back({Cat(at, source, ".weight"), Cat(to, target, ".weight")});
  AddMixedRows(family, {at + "mlp.", "router.gate", "shared_experts"});
  AddOptionalRow(family, at + "mlp.expert_bias", to + "exp_probs_b.bias");
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  FillWindows(keys, {.period = kPeriod}, spec);
  for (uint32_t layer = 0; layer < spec.layers; ++layer)
    spec.layer[layer].rope = (layer + 1) % kPeriod != 0;
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.width));
  spec.gated_attention = true;
  spec.norms_after = true;
}

constexpr std::string_view kArchitectures[] = {"AfmoeForCausalLM"};
constexpr std::string_view kModelTypes[] = {"afmoe"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' AfmoeConfig
    {R"({"rope_theta": 10000, "rms_norm_eps": 1e-5, "num_dense_layers": 1,
        "num_shared_experts": 0})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = kSigmoidOfWrittenKeys,
     .window = {{.period = kPeriod, .tokens = 0, .reads_key = true}}},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "AFMoE", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"afmoe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::afmoe
