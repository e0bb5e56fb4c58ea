#include "libshard/families/deepseek2.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

constexpr std::string_view kPlain = "deepseek2";
constexpr uint32_t kDefaultRank = 512;  // of keys and values; llama.cpp's converter

// llama.cpp's load_hparams then requires attn_q without reading q_lora_rank.
bool TakenForLite(std::string_view architecture, const HfShape& shape) {
  return IsAmong(FindArchitecture(architecture)->direct_queries, shape.layers, shape.vocabulary);
}

// Checks what the runtime's rope does unconditionally.
Status CheckRope(const HfConfig& config) {
  SHARD_TRY(const std::optional<bool> interleave, config.FindBool({"rope_interleave"}));
  if (interleave && !*interleave) {
    return CannotHold(config, "rope_interleave: expected true, found false");
  }
  SHARD_TRY(const HfConfig rope, config.Rope());
  SHARD_TRY(const std::optional<float> all, rope.FindF32(fields::kMultiplierAll));
  SHARD_TRY(const std::optional<float> scale, rope.FindF32({"mscale"}));
  if (!all || !scale || *scale == *all || *scale == 1) return Ok();
  return CannotHold(config, Cat("rope scaling: mscale: expected 1 or mscale_all_dim (", *all,
                                "), found ", *scale));
}

Status CheckLoads(const HfConfig& config, const HfShape& shape, const Mla& mla, bool indexer) {
  if (shape.kv_heads != shape.heads) {
    return CannotHold(config, Cat("num_key_value_heads: expected num_attention_heads (",
                                  shape.heads, "), found ", shape.kv_heads));
  }
  if (indexer && mla.query_rank == 0) {
    return CannotHold(config,
                      "q_lora_rank: expected a number, by which the indexer finds keys, "
                      "found none");
  }
  if (!indexer && mla.query_rank > 0 && TakenForLite(kPlain, shape)) {
    return CannotHold(
        config, Cat("q_lora_rank: expected none in a model of ", Plural(shape.layers, "layer"),
                    ", which the runtime takes for DeepSeek-V2-Lite, found ", mla.query_rank));
  }
  SHARD_TRY(const std::optional<uint32_t> shared, config.FindU32(fields::kSharedExperts));
  if (shared.value_or(0) > 0) return CheckRope(config);
  return CannotHold(config, "n_shared_experts: expected at least one, found none");
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const Mla mla, ReadMla(config));
  AddMlaKeys(mla, shape, keys);
  keys.U32("vocab_size", shape.vocabulary);
  SHARD_TRY(const uint32_t dense, LeadingDense(config, shape));
  keys.U32("leading_dense_block_count", dense);
  SHARD_TRY(const uint32_t width, config.U32(fields::ExpertWidth(config)));
  keys.U32("expert_feed_forward_length", width);
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedExperts));
  keys.U32("expert_shared_count", shared);
  return Ok();
}

// Which layers have an indexer of their own; empty if the config does not say.
Result<std::vector<bool>> OwnIndexers(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(const BlockCounts counts, CountBlocks(config, shape));
  ConfigFaults faults;
  std::vector<bool> own = ReadIndexers(config, counts, faults);
  SHARD_CHECK(CheckFaults(config, faults));
  return own;
}

Status AddKeysWithIndexer(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(AddKeys(config, shape, keys));
  SHARD_TRY(const uint32_t heads, config.U32(fields::kIndexHeads));
  SHARD_TRY(const uint32_t size, config.U32(fields::kIndexSize));
  SHARD_TRY(const uint32_t top, config.U32({"index_topk"}));
  if (top == 0) return config.Wrong(*config.Find({"index_topk"}), "at least 1");
  keys.U32("attention.indexer.head_count", heads);
  keys.U32("attention.indexer.key_length", size);
  keys.U32("attention.indexer.top_k", top);
  SHARD_TRY(const std::vector<bool> own, OwnIndexers(config, shape));
  if (!own.empty()) keys.Bools("attention.indexer.types", own);
  return Ok();
}

template <bool indexer>
Status ReadHeads(const HfConfig& config, HeadShape& shape) {
  SHARD_TRY(const Mla mla, ReadMla(config));
  SHARD_TRY(const HfShape model, ReadShape(config));
  SHARD_CHECK(CheckLoads(config, model, mla, indexer));
  return ReadMlaHeads(config, shape);
}

void AddAttention(HfFamily& family, bool query_rank) {
  family.rows.push_back({"layers.{L}.input_layernorm.weight", "blk.{L}.attn_norm.weight"});
  AddMlaRows(family, {.at = "layers.{L}.self_attn.", .output = "o_proj", .query_rank = query_rank});
  family.rows.push_back({"layers.{L}.post_attention_layernorm.weight", "blk.{L}.ffn_norm.weight"});
}

void AddIndexer(HfFamily& family) {
  const std::string at = "layers.{L}.self_attn.indexer.", to = "blk.{L}.indexer.";
  AddOptionalRow(family, at + "wq_b.weight", to + "attn_q_b.weight");
  AddOptionalRow(family, at + "wk.weight", to + "attn_k.weight");
  AddOptionalRow(family, at + "k_norm.{W}", to + "k_norm.{W}");
  AddOptionalRow(family, at + "weights_proj.weight", to + "proj.weight");
}

// The runtime computes with the indexer of every layer that has its own.
Status CheckIndexers(const HfConfig& config, const HfShape& shape,
                     const std::vector<GgufTensor>& tensors) {
  SHARD_TRY(const std::vector<bool> own, OwnIndexers(config, shape));
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : tensors) names.insert(tensor.name);
  for (size_t layer = 0; layer < shape.layers; ++layer) {
    if (!own.empty() && !own[layer]) continue;
    for (const char* part :
         {"attn_q_b.weight", "attn_k.weight", "k_norm.weight", "k_norm.bias", "proj.weight"}) {
      const std::string name = Cat("blk.", layer, ".indexer.", part);
      if (names.contains(name)) continue;
      return Error{Code::kCorrupt,
                   Cat(config.where(), ": layer ", layer,
                       ": expected an indexer of its own, found no tensor for ", name)};
    }
  }
  return Ok();
}

template <bool selection_bias, bool indexer>
Status Check(const HfConfig& config, const HfShape& shape, const std::vector<GgufTensor>& tensors) {
  if (indexer) SHARD_CHECK(CheckIndexers(config, shape, tensors));
  return CheckLeadingDense(config, shape, selection_bias, tensors);
}

// The attention scale includes YaRN's magnitude squared, which the rotation then omits.
void ScaleAttention(SpecKeys& keys, ModelSpec& spec) {
  const float stretch = 0.1f * std::log(1 / spec.rope.frequency_scale);
  // The file stores 0.1 times the multiplier.
  const float multiplier = keys.Float("rope.scaling.yarn_log_multiplier", 0) / 0.1f;
  if (spec.rope.yarn_mix > 0 && multiplier != 0) spec.rope.attention_factor /= 1 + stretch;
  const float magnitude = spec.rope.attention_factor * (1 + multiplier * stretch);
  spec.attention_scale = magnitude * magnitude / std::sqrt(static_cast<float>(spec.key_width));
  if (!std::isfinite(spec.attention_scale))
    keys.Refuse("rope.scaling.yarn_log_multiplier", "one that gives a finite attention scale",
                Cat(multiplier * 0.1f));
}

}  // namespace

Result<Mla> ReadMla(const HfConfig& config) {
  Mla mla;
  SHARD_TRY(mla.nope, config.U32(fields::kPlainPart));
  SHARD_TRY(mla.rope, config.U32(fields::kRopePart));
  SHARD_TRY(mla.value, config.U32(fields::kValueHeadSize));
  SHARD_TRY(const std::optional<uint32_t> rank, config.FindU32(fields::kLatentRank));
  SHARD_TRY(const std::optional<uint32_t> query_rank, config.FindU32(fields::kQueryRank));
  mla.rank = rank.value_or(kDefaultRank);
  mla.query_rank = query_rank.value_or(0);
  return mla;
}

Status ReadMlaHeads(const HfConfig& config, HeadShape& shape) {
  SHARD_TRY(const Mla mla, ReadMla(config));
  shape.mla_key_size = mla.nope;
  shape.mla_value_size = mla.value;
  return Ok();
}

void AddMlaRows(HfFamily& family, const MlaRows& rows) {
  const auto add = [&](const char* source, const char* target, RowOrder order = RowOrder::kAsIs,
                       ValueRule rule = ValueRule::kNone) {
    family.rows.push_back({.source = Cat(rows.at, source, ".weight"),
                           .target = Cat("blk.{L}.", target, ".weight"),
                           .order = order,
                           .rule = rule,
                           .blocks = rows.blocks});
  };
  if (rows.query_rank) {
    add("q_a_proj", "attn_q_a");
    add("q_a_layernorm", "attn_q_a_norm");
    add("q_b_proj", "attn_q_b");
  } else {
    add("q_proj", "attn_q");
  }
  add("kv_a_proj_with_mqa", "attn_kv_a_mqa");
  add("kv_a_layernorm", "attn_kv_a_norm");
  add("kv_b_proj", "attn_k_b", RowOrder::kAsIs, ValueRule::kMlaKeys);
  add("kv_b_proj", "attn_v_b", RowOrder::kMlaValues);
  add(rows.output, "attn_output");
}

void AddMlaKeys(const Mla& mla, const HfShape& shape, ArchKeys& keys) {
  // Heads share one compressed key, so that the runtime sees multi-query attention.
  keys.U32("attention.head_count_kv", 1);
  keys.U32("attention.key_length", mla.rank + mla.rope);
  keys.U32("attention.value_length", mla.rank);
  keys.U32("attention.key_length_mla", mla.nope + mla.rope);
  keys.U32("attention.value_length_mla", mla.value);
  keys.U32("attention.kv_lora_rank", mla.rank);
  // Without a low rank llama.cpp's converter has no such key. The runtime refuses that unless it
  // assumes the model is V2-Lite; 0 makes it require attn_q.
  const bool lite = TakenForLite(keys.architecture(), shape);
  if (mla.query_rank > 0 || !lite) keys.U32("attention.q_lora_rank", mla.query_rank);
  keys.U32("rope.dimension_count", mla.rope);
}

Result<HfFamily> MakeDeepseek2(const MoeModel& model, const Deepseek2& variant) {
  SHARD_TRY(const HfConfig config,
            HfConfig::Parse(model.config_path().string(), model.config_text()));
  SHARD_TRY(const std::optional<uint32_t> query_rank, config.FindU32(fields::kQueryRank));
  HfFamily family;
  family.architecture = variant.architecture;
  family.rope.log_multiplier = true;
  family.all_layers_moe = false;
  family.heads = variant.indexer ? ReadHeads<true> : ReadHeads<false>;
  family.keys = variant.indexer ? AddKeysWithIndexer : AddKeys;
  family.check = variant.selection_bias
                     ? (variant.indexer ? Check<true, true> : Check<true, false>)
                     : (variant.indexer ? Check<false, true> : Check<false, false>);
  AddModelRows(family);
  AddAttention(family, query_rank.value_or(0) > 0);
  if (variant.indexer) AddIndexer(family);
  AddMixedRows(family, {.at = "layers.{L}.mlp.",
                        .router = "gate",
                        .shared = "shared_experts",
                        .one_gate_up = variant.one_gate_up});
  if (variant.selection_bias) {
    family.rows.push_back(
        {"layers.{L}.mlp.gate.e_score_correction_bias", "blk.{L}.exp_probs_b.bias"});
    family.rows.back().optional = true;
  }
  return family;
}

void FillDeepseek2(SpecKeys& keys, ModelSpec& spec) {
  spec.rope.pairing = Pairing::kNeighbours;
  if (!keys.Has("attention.key_length_mla")) {
    keys.Decline(
        "files without attention.key_length_mla (undivided attn_kv_b) do not run in the "
        "runtime shim; convert the checkpoint again");
    return;
  }
  spec.latent.rank = keys.Required("attention.kv_lora_rank");
  const uint32_t head = keys.Required("attention.key_length_mla");
  spec.latent.value_width = keys.Required("attention.value_length_mla");
  if (head <= spec.rope.dims)
    keys.Refuse("attention.key_length_mla", Cat("more than ", spec.rope.dims), Cat(head));
  spec.latent.nope_width = head - spec.rope.dims;
  spec.key_width = head;
  spec.key_heads = 1;
  ScaleAttention(keys, spec);
}

void FillDeepseek2Short(SpecKeys& keys, ModelSpec& spec) {
  FillDeepseek2(keys, spec);
  spec.unused_indexer = true;
  spec.context = std::min(spec.context, keys.Required("attention.indexer.top_k"));
}

}  // namespace moepack
