// Nemotron-3 Nano, Super, Lightning and Puzzle: every layer is one mixer - Mamba-2, attention or
// MoE. Experts have up and down only (relu2, no gate); Super runs them in a smaller space between
// fc1_latent_proj and fc2_latent_proj. In Puzzle the width of the experts, and how many of them a
// token uses, differ between layers. The mixer rows are spelled out, because all kinds share the
// same place. Names: the full list inside the V4X graft (whose new_experts must not match),
// ModelOpt's lists.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "libshard/base/text/text.h"
#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"
#include "libshard/families/mamba_rows.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack::nemotron_h {
namespace {

constexpr const char* kGraph = "nemotron_h_moe";  // general.architecture
constexpr std::string_view kPuzzle = "NemotronHPuzzleForCausalLM";

Family Table() {
  Family family;
  family.prefixes = {"backbone.", "model."};
  family.routing = {.gating = Gating::kSigmoid, .normalize = true, .bias = RouterBias::kSelection};
  constexpr Projections kUpDown = {"", "up_proj", "down_proj", ""};
  AddTrunk(family, "embedding", {"embeddings.{W}", "embed_tokens.{W}"});
  AddTrunk(family, "norm", {"norm_f.{W}"});
  AddTrunk(family, "head", {"lm_head.{W}"});
  for (const std::string at : {"layers.{L}.", "mtp.layers.{M}."}) {
    AddTrunk(family, "norm", {at + "norm.{W}"});
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      AddTrunk(family, "attention", {at + "mixer." + name + ".{W}"});
    }
    for (const char* name :
         {"in_proj.{W}", "out_proj.{W}", "conv1d.{W}", "norm.{W}", "A_log", "D", "dt_bias"}) {
      AddTrunk(family, "mamba", {at + "mixer." + name});
    }
    AddTrunk(family, "latent",
             {at + "mixer.fc1_latent_proj.{W}", at + "mixer.fc2_latent_proj.{W}"});
    AddRouter(family, at + "mixer.gate");
    AddSelectionBias(family, at + "mixer.gate.e_score_correction_bias");
    AddExplicitExperts(family, at + "mixer.experts.", kUpDown);
    AddPackedExperts(family, at + "mixer.experts.", kUpDown);
    // MLX: switch_mlp.{fc1,fc2} for up and down.
    AddPackedExperts(family, at + "mixer.switch_mlp.", {"", "fc1", "fc2", ""});
    AddSharedExpert(family, at + "mixer.shared_experts.", kUpDown);
    AddDenseMlp(family, at + "mixer.", kUpDown);
  }
  AddTrunk(family, "mtp", {"mtp.layers.{M}.{*}norm.{W}", "mtp.layers.{M}.eh_proj.{W}"});
  return family;
}

// hybrid_override_pattern, a letter for each layer, or a word for each.
Result<std::vector<LayerKind>> ReadKinds(const HfConfig& config, const HfShape& shape) {
  return ReadBlockKinds(config, shape, fields::kBlockKinds,
                        {LayerKind::kMamba, LayerKind::kFull, LayerKind::kExperts});
}

// One number for each layer: that of the config in layers with experts, 0 in the others.
Result<std::vector<int32_t>> ByLayer(const HfConfig& config, ConfigKeys field,
                                     const std::vector<LayerKind>& kinds) {
  SHARD_TRY(const std::vector<uint32_t> found, config.FindU32s(field));
  if (found.empty()) return config.Missing(field, "a whole number");
  if (found.size() != 1 && found.size() != kinds.size())
    return config.Wrong(*config.Find(field),
                        Cat("one number, or one per layer (", kinds.size(), ")"));
  std::vector<int32_t> numbers(kinds.size());
  for (size_t layer = 0; layer < kinds.size(); ++layer) {
    const uint32_t number = found[found.size() == 1 ? 0 : layer];
    if (kinds[layer] != LayerKind::kExperts) continue;
    if (number == 0 || number > INT32_MAX)
      return config.Wrong(*config.Find(field), Cat("at least 1 in layer ", layer));
    numbers[layer] = static_cast<int32_t>(number);
  }
  return numbers;
}

Status AddExpertKeys(const HfConfig& config, const std::vector<LayerKind>& kinds, ArchKeys& keys) {
  SHARD_TRY(const std::vector<int32_t> widths, ByLayer(config, fields::kExpertWidth, kinds));
  SHARD_TRY(const std::vector<int32_t> used, ByLayer(config, fields::kTopK, kinds));
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedWidth));
  SHARD_TRY(const uint32_t count, config.U32(fields::kSharedExperts));
  keys.I32s("feed_forward_length", widths);
  if (config.Has(fields::kBlockConfigs)) {
    keys.I32s("expert_feed_forward_length", widths);
    keys.I32s("expert_used_count", used);
  } else {
    keys.U32("expert_feed_forward_length", *std::max_element(widths.begin(), widths.end()));
  }
  keys.U32("expert_shared_feed_forward_length", shared);
  keys.U32("expert_shared_count", count);
  SHARD_TRY(const std::optional<uint32_t> latent, config.FindU32(fields::kLatentWidth));
  if (latent.value_or(0) > 0) keys.U32("moe_latent_size", *latent);
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const std::vector<LayerKind> kinds, ReadKinds(config, shape));
  keys.U32("context_length", kMambaContext);
  keys.U32("vocab_size", shape.vocabulary);
  // Written as llama.cpp's converter does; the runtime rotates nothing here.
  keys.U32("rope.dimension_count", shape.hidden / shape.heads);
  keys.Bool("rope.scaling.finetuned", false);
  SHARD_TRY(const std::optional<float> other, config.FindF32({"layer_norm_epsilon"}));
  if (other) keys.F32("attention.layer_norm_epsilon", *other);
  keys.U32("attention.key_length", shape.head_size);
  keys.U32("attention.value_length", shape.head_size);
  std::vector<int32_t> key_heads;
  for (const LayerKind kind : kinds)
    key_heads.push_back(kind == LayerKind::kFull ? static_cast<int32_t>(shape.kv_heads) : 0);
  keys.I32s("attention.head_count_kv", key_heads);
  SHARD_CHECK(AddMambaKeys(config, keys));
  return AddExpertKeys(config, kinds, keys);
}

// Suffixes of the tensors that the runtime requires in each kind of layer. Both forms of experts in
// a checkpoint have the same name in the GGUF.
constexpr const char* kAttentionNames[] = {"attn_q.weight", "attn_k.weight", "attn_v.weight",
                                           "attn_output.weight"};
constexpr const char* kExpertNames[] = {"ffn_gate_inp.weight", "exp_probs_b.bias",
                                        "ffn_up_exps.weight",  "ffn_down_exps.weight",
                                        "ffn_up_shexp.weight", "ffn_down_shexp.weight"};
constexpr const char* kLatentNames[] = {"ffn_latent_down.weight", "ffn_latent_up.weight"};

Status CheckLayer(const std::string& where, const std::set<std::string_view>& names, size_t layer,
                  LayerKind kind, bool latent) {
  const auto check = [&](std::span<const char* const> suffixes, bool expected) -> Status {
    for (const char* suffix : suffixes) {
      const std::string name = Cat("blk.", layer, ".", suffix);
      if (names.contains(name) == expected) continue;
      return Error{Code::kCorrupt,
                   Cat(where, ": layer ", layer, ": expected a layer of ", LayerKindName(kind),
                       " as the config has it, found ", expected ? "no " : "", name)};
    }
    return Ok();
  };
  SHARD_CHECK(check(kMambaNames, kind == LayerKind::kMamba));
  SHARD_CHECK(check(kAttentionNames, kind == LayerKind::kFull));
  SHARD_CHECK(check(kExpertNames, kind == LayerKind::kExperts));
  return check(kLatentNames, kind == LayerKind::kExperts && latent);
}

Status CheckTensors(const HfConfig& config, const HfShape& shape,
                    const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(const std::vector<LayerKind> kinds, ReadKinds(config, shape));
  SHARD_TRY(const std::optional<uint32_t> latent, config.FindU32(fields::kLatentWidth));
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : tensors) names.insert(tensor.name);
  for (size_t layer = 0; layer < kinds.size(); ++layer)
    SHARD_CHECK(CheckLayer(config.where(), names, layer, kinds[layer], latent.value_or(0) > 0));
  return Ok();
}

void AddOtherRows(HfFamily& family, const AttentionRows& attention) {
  const std::string from = "layers.{L}.mixer.", to = "blk.{L}.";
  for (const auto& [part, order] : {std::pair("q", attention.query), std::pair("k", attention.key),
                                    std::pair("v", RowOrder::kAsIs)}) {
    family.rows.push_back(
        {Cat(from, part, "_proj.{W}"), Cat(to, "attn_", part, ".{W}"), order, /*optional=*/true});
  }
  AddOptionalRow(family, from + "o_proj.{W}", to + "attn_output.{W}");
  AddOptionalRow(family, from + "gate.weight", to + "ffn_gate_inp.weight");
  AddOptionalRow(family, from + "gate.e_score_correction_bias", to + "exp_probs_b.bias");
  AddOptionalRow(family, from + "fc1_latent_proj.weight", to + "ffn_latent_down.weight");
  AddOptionalRow(family, from + "fc2_latent_proj.weight", to + "ffn_latent_up.weight");
  for (const char* part : {"up", "down"}) {
    const std::string experts = Cat(to, "ffn_", part, "_exps.weight");
    AddOptionalRow(family, Cat(from, "experts.{E}.", part, "_proj.weight"), experts);
    AddOptionalRow(family, Cat(from, "experts.", part, "_proj"), experts);
    AddOptionalRow(family, Cat(from, "shared_experts.", part, "_proj.weight"),
                   Cat(to, "ffn_", part, "_shexp.weight"));
  }
}

// Nemotron-3 (Nano, Super, Lightning): every layer is one of Mamba-2, attention without rope, or
// experts of two matrices (squared ReLU, no gate) with a selection bias and a shared expert. In
// Super the experts work in a narrower space between two projections. Blocks for multi-token
// prediction are left out. llama.cpp's converter permutes queries and keys of Puzzle as for a rope,
// although there is none.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  const bool puzzle = model.config().architecture == kPuzzle;
  SHARD_TRY(const HfConfig config,
            HfConfig::Parse(model.config_path().string(), model.config_text()));
  HfFamily family;
  family.architecture = kGraph;
  family.activations = {"relu2"};
  family.pre = "pixtral";
  family.all_layers_moe = false;
  family.own_keys.used_experts = config.Has(fields::kBlockConfigs);
  family.heads = ReadMambaGroups;
  family.keys = AddKeys;
  family.check = CheckTensors;
  for (const char* name : {"embeddings", "embed_tokens"})
    family.rows.push_back({Cat(name, ".weight"), "token_embd.weight"});
  family.rows.push_back({"norm_f.weight", "output_norm.weight"});
  family.rows.push_back({"lm_head.weight", "output.weight"});
  family.rows.push_back({"layers.{L}.norm.weight", "blk.{L}.attn_norm.weight"});
  AddMambaRows(family, "layers.{L}.mixer.");
  AddOtherRows(family,
               puzzle ? AttentionRows{RowOrder::kRope, RowOrder::kRopeKv} : AttentionRows{});
  return ConvertHf(model, family, options);
}

// A layer without key heads is a Mamba layer or, if it has a width, one with experts.
void Fill(SpecKeys& keys, ModelSpec& spec) {
  ReadMamba(keys, spec);
  const std::vector<uint32_t> widths = keys.PerLayer("feed_forward_length", spec.layers, 0);
  for (uint32_t number = 0; number < spec.layers; ++number) {
    LayerSpec& layer = spec.layer[number];
    layer.rope = false;
    layer.feeds = widths[number] > 0;
    layer.mixes = !layer.feeds;
    layer.recurrent = layer.mixes && layer.key_heads == 0;
    if (layer.feeds && layer.key_heads > 0)
      keys.Refuse("attention.head_count_kv", Cat("0 in layer ", number, ", which has experts"),
                  Cat(layer.key_heads));
  }
  spec.gated_mlps = false;
  spec.activation = spec.expert_activation = Activation::kSquaredRelu;
  spec.expert_space = keys.Uint("moe_latent_size", 0);
}

constexpr std::string_view kArchitectures[] = {"NemotronHForCausalLM", kPuzzle};
constexpr std::string_view kModelTypes[] = {"nemotron_h", "nemotron_h_puzzle"};

constexpr ConfigDefault kDefaults[] = {
    // configuration_nemotron_h.py of Nemotron-3-Nano
    {R"({"norm_eps": 1e-5, "rope_theta": 10000, "conv_kernel": 4, "n_groups": 8,
        "mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128,
        "mlp_hidden_act": "relu2", "mamba_hidden_act": "silu"})"},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph,
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = false,
                  .reads_weights = true,
                  .writes_false_norm = true}},
     .single_parts = true,
     .needs_mtp = true},
};

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Nemotron-3", Fill,
     /*layers_without_heads=*/true},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"nemotron-h", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::nemotron_h
