// K-EXAONE: three layers of four have a window, and only these rotate queries and keys; one dense
// layer first; a block for multi-token prediction "mtp.layers.0" with a dense feed-forward part.
// Names: transformers (ExaoneMoe), llama.cpp's converter.
#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::exaone_moe {
namespace {

constexpr const char* kGraph = "exaone-moe";  // general.architecture
constexpr uint32_t kPeriod = 4;               // its last layer has no window

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.square_heads = true, .shared_of_experts = true};
  AddModel(family);
  for (const char* at : {"layers.{L}.", "mtp.layers.{M}."}) AddAttention(family, at);
  AddDeepseekMoe(family, "layers.{L}.");
  AddDenseMlp(family, "mtp.layers.{M}.mlp.");
  AddSelectionBias(family, "layers.{L}.mlp.e_score_correction_bias");
  AddQwenMtp(family);
  family.promise = {.output_bias = false, .query_key_norms = {{}, true}};
  return family;
}

// The runtime rotates by the base alone, whatever the scaling.
Status AddRope(const HfConfig& config, ArchKeys& keys) {
  SHARD_TRY(const HfConfig rope, config.Rope());
  SHARD_TRY(const auto type, rope.FindString(fields::kRopeType));
  if (type && *type != "default" && *type != "llama3") {
    return CannotHold(config, Cat("rope_type: expected default or llama3, the only ones that the ",
                                  "runtime has here, found ", Quoted(*type)));
  }
  keys.String("rope.scaling.type", "none");
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  keys.U32("vocab_size", shape.vocabulary);
  SHARD_CHECK(AddWindowKey(config, keys));
  SHARD_TRY(std::vector<bool> windowed, ReadWindowed(config, shape, fields::kLayerTypes));
  windowed.resize(shape.layers);
  keys.Bools("attention.sliding_window_pattern", windowed);
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedExperts));
  keys.U32("expert_feed_forward_length", width);
  keys.U32("expert_shared_count", shared);
  keys.U32("expert_shared_feed_forward_length", width * shared);
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("leading_dense_block_count", dense);
  keys.U32("nextn_predict_layers", shape.mtp_layers);
  return AddRope(config, keys);
}

// Blocks for multi-token prediction are dense.
Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(MixedLayers layers, LeadingDenseLayers(config, shape));
  layers.selection_bias = true;
  layers.moe.resize(shape.layers);
  layers.moe.resize(shape.layers + shape.mtp_layers, false);
  return CheckMixedLayers(config, layers, tensors);
}

void AddMtpRows(HfFamily& family) {
  const std::pair<const char*, const char*> rows[] = {{"fc", "eh_proj"},
                                                      {"pre_fc_norm_embedding", "enorm"},
                                                      {"pre_fc_norm_hidden", "hnorm"},
                                                      {"norm", "shared_head_norm"}};
  for (const auto& [source, target] : rows) {
    family.rows.push_back({.source = Cat("mtp.", source, ".weight"),
                           .target = Cat("blk.{L}.nextn.", target, ".weight"),
                           .mtp = true});
  }
}

// K-EXAONE: norms of queries and keys, leading dense layers, sigmoid scores with a selection bias,
// layers with a window.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.rope.llama3 = true;
  family.pre = "exaone-moe";
  family.all_layers_moe = false;
  family.keeps_mtp = true;
  family.keys = AddKeys;
  family.check = Check;
  AddModelRows(family);
  for (const std::string at : {"layers.{L}.", "mtp.layers.{L}."}) {
    AddAttentionRows(family, {.at = at.c_str()});
    AddQueryKeyNormRows(family, at.c_str());
    family.rows.push_back({at + "post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
    AddMixedRows(family, {at + "mlp.", "gate", "shared_experts"});
  }
  AddOptionalRow(family, "layers.{L}.mlp.e_score_correction_bias", "blk.{L}.exp_probs_b.bias");
  AddMtpRows(family);
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  keys.Required("attention.sliding_window");
  FillWindows(keys, {.period = kPeriod, .reads_pattern = true}, spec);
  for (LayerSpec& layer : spec.layer) layer.rope = layer.window > 0;
}

constexpr std::string_view kArchitectures[] = {"ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM"};
constexpr std::string_view kModelTypes[] = {"exaone_moe"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' ExaoneMoeConfig
    {R"({"rms_norm_eps": 1e-5})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = kSigmoidOfRequiredKeys,
     .window = {{.period = kPeriod, .tokens = 128, .reads_key = true}},
     .needs_mtp = true},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "K-EXAONE", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"exaone-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::exaone_moe
