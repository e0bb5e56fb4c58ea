// LFM2-8B-A1B: short convolutions between attention layers; the first layers are dense; the
// selection bias is feed_forward.expert_bias. Names: llama.cpp's tensor map, transformers
// (Lfm2Moe).
#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::lfm2_moe {
namespace {

constexpr const char* kGraph = "lfm2moe";  // general.architecture

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  family.facts = {.square_heads = true};
  AddModel(family);
  AddTrunk(family, "norm", {"embedding_norm.{W}"});
  AddAttention(family, "layers.{L}.");
  AddTrunk(family, "attention", {"layers.{L}.conv.{**}"});
  AddRouter(family, "layers.{L}.feed_forward.gate");
  AddSelectionBias(family, "layers.{L}.feed_forward.expert_bias");
  AddExperts(family, "layers.{L}.feed_forward.", kW123);
  AddDenseMlp(family, "layers.{L}.feed_forward.", kW123);
  return family;
}

Result<std::vector<LayerKind>> ReadKinds(const HfConfig& config, const HfShape& shape) {
  return ReadBlockKinds(config, shape, fields::kLayerTypes,
                        {LayerKind::kConvolution, LayerKind::kFull});
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(CheckSquareHeads(config, shape));
  SHARD_TRY(const std::vector<LayerKind> kinds, ReadKinds(config, shape));
  std::vector<int32_t> key_heads;
  for (const LayerKind kind : kinds)
    key_heads.push_back(kind == LayerKind::kFull ? static_cast<int32_t>(shape.kv_heads) : 0);
  keys.I32s("attention.head_count_kv", key_heads);
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  keys.U32("expert_feed_forward_length", width);
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("leading_dense_block_count", dense);
  keys.U32("vocab_size", shape.vocabulary);
  SHARD_TRY(const uint32_t kernel, config.U32(fields::kConvolutionKernel));
  if (kernel < 2)
    return config.Wrong(*config.Find(fields::kConvolutionKernel), "at least 2 tokens");
  keys.U32("shortconv.l_cache", kernel);
  return Ok();
}

Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(const std::vector<LayerKind> kinds, ReadKinds(config, shape));
  SHARD_CHECK(CheckKindTensors(
      config, kinds,
      {{LayerKind::kConvolution,
        {"shortconv.conv.weight", "shortconv.in_proj.weight", "shortconv.out_proj.weight"}},
       {LayerKind::kFull,
        {"attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight",
         "attn_q_norm.weight", "attn_k_norm.weight"}}},
      tensors));
  SHARD_TRY(const MoeLayers read, LayersWithExperts(config, shape));
  return CheckMixedLayers(config, {.moe = read.moe, .selection_bias = true, .shared = false},
                          tensors);
}

void AddRows(HfFamily& family) {
  const std::string from = "layers.{L}.", to = "blk.{L}.";
  // llama.cpp's name for the last norm.
  family.rows.push_back({"embed_tokens.weight", "token_embd.weight"});
  family.rows.push_back({"embedding_norm.weight", "token_embd_norm.weight"});
  family.rows.push_back({"lm_head.weight", "output.weight"});
  family.rows.push_back({from + "operator_norm.weight", to + "attn_norm.weight"});
  family.rows.push_back({from + "ffn_norm.weight", to + "ffn_norm.weight"});
  for (const char* part : {"q", "k", "v"}) {
    AddOptionalRow(family, Cat(from, "self_attn.", part, "_proj.weight"),
                   Cat(to, "attn_", part, ".weight"));
  }
  for (const char* part : {"q", "k"}) {
    AddOptionalRow(family, Cat(from, "self_attn.", part, "_layernorm.weight"),
                   Cat(to, "attn_", part, "_norm.weight"));
  }
  AddOptionalRow(family, from + "self_attn.out_proj.weight", to + "attn_output.weight");
  AddOptionalRow(family, from + "conv.conv.weight", to + "shortconv.conv.weight");
  family.rows.back().rule = ValueRule::kSqueeze;
  for (const char* part : {"in_proj", "out_proj"}) {
    AddOptionalRow(family, Cat(from, "conv.", part, ".weight"),
                   Cat(to, "shortconv.", part, ".weight"));
  }
}

void AddFeedForwardRows(HfFamily& family) {
  const std::string from = "layers.{L}.feed_forward.", to = "blk.{L}.";
  const size_t first = family.rows.size();
  for (const auto& [source, target] :
       {std::pair("w1", "gate"), std::pair("w3", "up"), std::pair("w2", "down")}) {
    AddOptionalRow(family, Cat(from, source, ".weight"), Cat(to, "ffn_", target, ".weight"));
  }
  AddOptionalRow(family, from + "gate.weight", to + "ffn_gate_inp.weight");
  AddOptionalRow(family, from + "expert_bias", to + "exp_probs_b.bias");
  AddExpertRows(family, (from + "experts.").c_str(), {"w1", "w3", "w2"});
  AddFusedExpertRows(family, (from + "experts.").c_str());
  for (size_t i = first; i < family.rows.size(); ++i) family.rows[i].optional = true;
}

// LFM2-8B-A1B: short convolutions and some layers of attention with norms on queries and keys;
// leading dense layers; sigmoid scores with a selection bias.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "lfm2";
  family.all_layers_moe = false;
  family.keys = AddKeys;
  family.check = Check;
  AddRows(family);
  AddFeedForwardRows(family);
  return ConvertHf(model, family, options);
}

// A layer without key heads is a short convolution.
void Fill(SpecKeys& keys, ModelSpec& spec) {
  spec.convolution = {.width = spec.width, .kernel = keys.Required("shortconv.l_cache")};
  if (spec.convolution.kernel < 2)
    keys.Refuse("shortconv.l_cache", "at least 2", Cat(spec.convolution.kernel));
  spec.last_norm = "token_embd_norm";
  for (LayerSpec& layer : spec.layer) layer.recurrent = layer.key_heads == 0;
}

constexpr std::string_view kArchitectures[] = {"Lfm2MoeForCausalLM"};
constexpr std::string_view kModelTypes[] = {"lfm2_moe"};

constexpr ConfigDefault kDefaults[] = {
    // transformers' Lfm2MoeConfig
    {R"({"norm_eps": 1e-5, "rope_theta": 1000000, "conv_L_cache": 3, "num_dense_layers": 2})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = {{.gating = Gating::kSigmoid, .normalize = true, .reads_gating = true}}},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "LFM2-MoE", Fill, /*layers_without_heads=*/true},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"lfm2-moe", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::lfm2_moe
