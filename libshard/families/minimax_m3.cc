// MiniMax-M3: three dense layers, then experts with a shared expert under block_sparse_moe; sparse
// attention (index_q_proj) inside self_attn; a vision tower. All norms store the difference from
// one. The announced MTP modules are not in the files. Names: the module list of
// MiniMax-M3-NVFP4, the config class in transformers.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::minimax_m3 {
namespace {

constexpr const char* kGraph = "minimax-m3";  // general.architecture

// Built into the graph: gate * sigmoid(alpha * gate) * (up + 1), with both limited.
constexpr float kAlpha = 1.702f, kLimit = 7;

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.plain_width = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.block_sparse_moe.gate");
  AddSelectionBias(family, "layers.{L}.block_sparse_moe.e_score_correction_bias");
  AddSelectionBias(family, "layers.{L}.block_sparse_moe.gate.e_score_correction_bias");
  AddExperts(family, "layers.{L}.block_sparse_moe.", kW123);
  AddSharedExpert(family, "layers.{L}.block_sparse_moe.shared_experts.");
  AddDenseMlp(family, "layers.{L}.mlp.");
  AddTowers(family);
  AddTrunk(family, "vision", {"patch_merge_mlp.{**}"});
  family.promise = {.f32_router = true};
  return family;
}

// What the graph has built in must be what the config says, if it says anything.
Status CheckBuiltIn(const HfConfig& config) {
  for (const auto& [field, expected] :
       {std::pair("swiglu_alpha", kAlpha), std::pair("swiglu_limit", kLimit)}) {
    SHARD_TRY(const std::optional<float> found, config.FindF32({field}));
    if (found.value_or(expected) == expected) continue;
    return CannotHold(config, Cat(field, ": expected ", expected,
                                  ", which is built into the runtime's graph, found ", *found));
  }
  for (const char* field : {"use_gemma_norm", "use_qk_norm"}) {
    SHARD_TRY(const std::optional<bool> found, config.FindBool({field}));
    if (found.value_or(true)) continue;
    return CannotHold(
        config, Cat(field, ": expected true, which the runtime takes for granted, found false"));
  }
  return CheckWord(config, {"qk_norm_type"}, {"per_head"});
}

// The runtime's attention is sparse in all layers with experts and in no other.
Status CheckSparseLayers(const HfConfig& sparse, const std::vector<bool>& moe) {
  SHARD_TRY(const std::vector<uint32_t> listed, sparse.FindU32s({"sparse_attention_freq"}));
  for (size_t layer = 0; layer < std::min(listed.size(), moe.size()); ++layer) {
    if ((listed[layer] != 0) == moe[layer]) continue;
    return CannotHold(sparse, Cat("sparse_attention_freq[", layer, "]: expected ", int{moe[layer]},
                                  ", since the runtime's attention is sparse in the layers with ",
                                  "experts, found ", listed[layer]));
  }
  return Ok();
}

Status AddIndexerKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  if (!config.Has(fields::kSparseSettings))
    return config.Missing(fields::kSparseSettings, "the sizes of sparse attention");
  SHARD_TRY(const HfConfig sparse, config.Within(*fields::kSparseSettings.begin()));
  SHARD_TRY(const MoeLayers layers, LayersWithExperts(config, shape));
  SHARD_CHECK(CheckSparseLayers(sparse, layers.moe));
  SHARD_CHECK(CheckWord(sparse, {"sparse_score_type"}, {"max"}));
  const std::pair<const char*, const char*> rows[] = {
      {"sparse_num_index_heads", "head_count"},
      {*fields::kSparseIndexSize.begin(), "key_length"},
      {"sparse_topk_blocks", "top_k"},
      {"sparse_block_size", "block_size"},
      {"sparse_local_block", "local_blocks"}};
  for (const auto& [name, key] : rows) {
    SHARD_TRY(const uint32_t number, sparse.U32({name}));
    const bool may_be_none = std::string_view(name) == "sparse_local_block";
    if (number == 0 && !may_be_none) return sparse.Wrong(*sparse.Find({name}), "at least 1");
    keys.U32(Cat("attention.indexer.", key), number);
  }
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckBuiltIn(config));
  SHARD_CHECK(CheckFullAttention(config, shape));
  SHARD_TRY(const uint32_t rotated, RotatedSize(config, shape.head_size));
  keys.U32("rope.dimension_count", rotated);
  SHARD_TRY(const uint32_t width, config.U32(fields::ExpertWidth(config)));
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedExperts));
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("expert_feed_forward_length", width);
  keys.U32("expert_shared_count", shared);
  keys.U32("leading_dense_block_count", dense);
  return AddIndexerKeys(config, shape, keys);
}

// A layer with experts has all of these, and a dense one none; the rest is CheckLeadingDense's.
constexpr const char* kIndexerNames[] = {"q_proj", "k_proj", "q_norm", "k_norm"};

Status CheckTensors(const HfConfig& config, const HfShape& shape,
                    const std::vector<GgufTensor>& tensors) {
  SHARD_CHECK(CheckLeadingDense(config, shape, /*selection_bias=*/true, tensors));
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    for (const char* part : kIndexerNames) {
      const std::string name = Cat("blk.", layer, ".indexer.", part, ".weight");
      const bool found = std::any_of(tensors.begin(), tensors.end(),
                                     [&](const GgufTensor& tensor) { return tensor.name == name; });
      if (found == (layer >= dense)) continue;
      return Error{Code::kCorrupt,
                   Cat(config.where(), ": layer ", layer, ": expected ", found ? "no " : "", name,
                       ", as the runtime has sparse attention in layers with experts only, found ",
                       found ? "one" : "none")};
    }
  }
  return Ok();
}

void AddIndexerRows(HfFamily& family) {
  const std::string from = "layers.{L}.self_attn.index_", to = "blk.{L}.indexer.";
  for (const char* part : kIndexerNames) {
    AddOptionalRow(family, Cat(from, part, ".weight"), Cat(to, part, ".weight"));
    // Scores that decide which keys are seen are not rounded.
    family.rows.back().f32 = true;
  }
}

Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  const std::string sparse = "layers.{L}.block_sparse_moe.";
  HfFamily family;
  family.architecture = kGraph;
  family.activations = {"swigluoai"};
  family.pre = "minimax-m2";
  family.needs_output = true;
  family.all_layers_moe = false;
  family.keys = AddKeys;
  family.check = CheckTensors;
  AddModelRows(family);
  AddAttentionRows(family);
  AddQueryKeyNormRows(family);
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
  AddIndexerRows(family);
  for (TensorRow& row : family.rows) {
    if (row.target.ends_with("norm.weight")) row.rule = ValueRule::kPlusOne;
  }
  AddOptionalRow(family, sparse + "gate.weight", "blk.{L}.ffn_gate_inp.weight");
  for (const char* at : {"", "gate."})
    AddOptionalRow(family, Cat(sparse, at, "e_score_correction_bias"), "blk.{L}.exp_probs_b.bias");
  const size_t experts = family.rows.size();
  AddExpertRows(family, Cat(sparse, "experts.").c_str(), {"w1", "w3", "w2"});
  AddFusedExpertRows(family, Cat(sparse, "experts.").c_str());
  for (size_t i = experts; i < family.rows.size(); ++i) family.rows[i].optional = true;
  for (const char* part : {"gate", "up", "down"}) {
    AddOptionalRow(family, Cat("layers.{L}.mlp.", part, "_proj.weight"),
                   Cat("blk.{L}.ffn_", part, ".weight"));
    AddOptionalRow(family, Cat(sparse, "shared_experts.", part, "_proj.weight"),
                   Cat("blk.{L}.ffn_", part, "_shexp.weight"));
  }
  return ConvertHf(model, family, options);
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  const uint32_t dense = keys.Uint("leading_dense_block_count", 0);
  spec.blocks = {
      keys.Required("attention.indexer.head_count"), keys.Required("attention.indexer.key_length"),
      keys.Required("attention.indexer.block_size"), keys.Required("attention.indexer.top_k"),
      keys.Uint("attention.indexer.local_blocks", 0)};
  if (keys.status() && spec.blocks.heads != spec.key_heads)
    keys.Decline(Cat("an indexer with ", spec.blocks.heads, " heads for ", spec.key_heads,
                     " key heads does not run in the runtime shim"));
  if (keys.status() && spec.rope.dims > spec.blocks.width)
    keys.Refuse("rope.dimension_count", Cat("at most ", spec.blocks.width, ", as the indexer has"),
                Cat(spec.rope.dims));
  for (uint32_t layer = dense; layer < spec.layers; ++layer) spec.layer[layer].picks_blocks = true;
  spec.activation = spec.expert_activation = Activation::kClampedSilu;
}

// In the config of the release the text model calls itself minimax_m2.
constexpr std::string_view kArchitectures[] = {"MiniMaxM3ForCausalLM",
                                               "MiniMaxM3SparseForConditionalGeneration"};
constexpr std::string_view kModelTypes[] = {"minimax_m3", "minimax_m3_vl"};

constexpr ConfigDefault kDefaults[] = {
    {R"({"rope_theta": 5000000, "rms_norm_eps": 1e-6, "head_dim": 128, "n_shared_experts": 1})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = false,
                  .reads_gating = true,
                  .needs_gating = true,
                  .reads_weights = true}}},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "MiniMax-M3", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"minimax-m3", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::minimax_m3
