#include "libshard/check/promised_attention.h"

#include <algorithm>
#include <array>

#include "libshard/base/text/text.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

// Kinds of layers that have the tensors of ordinary attention.
constexpr std::array<LayerKind, 4> kOrdinary = {LayerKind::kUnnamed, LayerKind::kFull,
                                                LayerKind::kWindow, LayerKind::kChunked};

Result<bool> Holds(const HfConfig& config, const ConfigSwitch& when) {
  SHARD_TRY(const std::optional<bool> said, config.FindBool(when.keys));
  return said.value_or(when.otherwise);
}

Result<uint64_t> Size(const HfConfig& config, ConfigKeys keys) {
  SHARD_TRY(const std::optional<uint32_t> size, config.FindU32(keys));
  return uint64_t{size.value_or(0)};
}

}  // namespace

Result<AttentionOutline> AttentionOutline::Read(const HfConfig& config, const Family& family,
                                                const ModelPromise& promise) {
  AttentionOutline out;
  out.promise_ = &promise;
  for (const TensorRule& rule : family.rules) {
    out.has_rows_ = out.has_rows_ || rule.pattern == "layers.{L}.self_attn.{**}";
    out.joined_ = out.joined_ || rule.pattern == "layers.{L}.attention.{**}";
  }
  out.mixers_ = HasOtherMixers(family);
  const PromiseFacts& facts = family.promise;
  SHARD_TRY(out.biases_, Holds(config, facts.attention_biases));
  out.output_bias_ = out.biases_ && facts.output_bias;
  out.sinks_ = facts.attention_sinks;
  SHARD_TRY(const bool norms, Holds(config, facts.query_key_norms));
  if (norms) {
    out.query_norm_ = facts.layer_norms ? "query_layernorm" : "q_norm";
    out.key_norm_ = facts.layer_norms ? "key_layernorm" : "k_norm";
    out.whole_norms_ = facts.whole_norms;
  }
  SHARD_TRY(out.linear_.key_heads, Size(config, fields::kLinearKeyHeads));
  SHARD_TRY(out.linear_.value_heads, Size(config, fields::kLinearValueHeads));
  SHARD_TRY(out.linear_.key, Size(config, fields::kLinearKeySize));
  SHARD_TRY(out.linear_.value, Size(config, fields::kLinearValueSize));
  SHARD_TRY(out.linear_.kernel, Size(config, fields::kLinearKernel));
  out.linear_.fused = facts.joined_linear;
  SHARD_TRY(out.indexer_.heads, Size(config, fields::kIndexHeads));
  SHARD_TRY(out.indexer_.size, Size(config, fields::kIndexSize));
  return out;
}

std::vector<PromisedTensor> AttentionOutline::Of(LayerKind kind) const {
  if (!has_rows_) return {};
  if (kind == LayerKind::kLinear && promise_->linear_attention) return Linear();
  if (std::find(kOrdinary.begin(), kOrdinary.end(), kind) == kOrdinary.end()) return {};
  if (mixers_) return {};
  if (joined_) return Joined();
  return promise_->latent ? Latent() : Standard();
}

std::vector<PromisedTensor> AttentionOutline::Standard() const {
  if (!promise_->heads || promise_->heads->size == 0) return {};
  const HeadsPromise& heads = *promise_->heads;
  std::vector<PromisedTensor> out;
  const auto add = [&](const std::string& name) { out.push_back({.name = name, .shape = {}}); };
  for (const std::string name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    add(Cat("self_attn.", name, ".weight"));
    const bool biased = name == "o_proj" ? output_bias_ : biases_;
    if (biased) add(Cat("self_attn.", name, ".bias"));
  }
  const auto norm = [&](const std::string& name, uint64_t count) {
    const uint64_t width = whole_norms_ ? count * heads.size : heads.size;
    if (!name.empty())
      out.push_back({.name = Cat("self_attn.", name, ".weight"), .shape = {width}});
  };
  norm(query_norm_, heads.heads);
  norm(key_norm_, heads.key_heads);
  if (sinks_) out.push_back({.name = "self_attn.sinks", .shape = {heads.heads}});
  return out;
}

// The Bailing models stack queries, keys and values in one matrix.
std::vector<PromisedTensor> AttentionOutline::Joined() const {
  if (!promise_->heads || promise_->heads->size == 0 || promise_->hidden == 0) return {};
  const HeadsPromise& heads = *promise_->heads;
  const uint64_t query = heads.heads * heads.size, key = heads.key_heads * heads.size;
  std::vector<PromisedTensor> out = {
      {.name = "attention.query_key_value.weight", .shape = {query + 2 * key, promise_->hidden}},
      {.name = "attention.dense.weight", .shape = {promise_->hidden, query}}};
  for (const std::string& norm : {query_norm_, key_norm_}) {
    if (!norm.empty())
      out.push_back({.name = Cat("attention.", norm, ".weight"), .shape = {heads.size}});
  }
  return out;
}

std::vector<PromisedTensor> AttentionOutline::Latent() const {
  std::vector<PromisedTensor> out;
  const auto add = [&](const char* name, std::vector<uint64_t> shape = {}) {
    out.push_back({.name = Cat("self_attn.", name), .shape = std::move(shape)});
  };
  const uint64_t rank = promise_->latent->query_rank, hidden = promise_->hidden;
  if (rank > 0) {
    add("q_a_proj.weight");
    add("q_a_layernorm.weight");
    add("q_b_proj.weight");
  } else {
    add("q_proj.weight");
  }
  add("kv_a_proj_with_mqa.weight");
  add("kv_a_layernorm.weight");
  add("kv_b_proj.weight");
  add("o_proj.weight");
  if (indexer_.heads == 0 || indexer_.size == 0 || rank == 0) return out;
  add("indexer.wq_b.weight", {indexer_.heads * indexer_.size, rank});
  add("indexer.wk.weight", {indexer_.size, hidden});
  add("indexer.k_norm.weight", {indexer_.size});
  add("indexer.k_norm.bias", {indexer_.size});
  add("indexer.weights_proj.weight", {indexer_.heads, hidden});
  return out;
}

std::vector<PromisedTensor> AttentionOutline::Linear() const {
  const uint64_t keys = linear_.key_heads * linear_.key, hidden = promise_->hidden;
  const uint64_t values = linear_.value_heads * linear_.value;
  if (keys == 0 || values == 0 || linear_.kernel == 0) return {};
  std::vector<PromisedTensor> out;
  const auto add = [&](const char* name, std::vector<uint64_t> shape) {
    out.push_back({.name = Cat("linear_attn.", name), .shape = std::move(shape)});
  };
  if (linear_.fused) {
    add("in_proj_qkvz.weight", {2 * keys + 2 * values, hidden});
    add("in_proj_ba.weight", {2 * linear_.value_heads, hidden});
  } else {
    add("in_proj_qkv.weight", {2 * keys + values, hidden});
    add("in_proj_z.weight", {values, hidden});
    add("in_proj_b.weight", {linear_.value_heads, hidden});
    add("in_proj_a.weight", {linear_.value_heads, hidden});
  }
  add("conv1d.weight", {2 * keys + values, 1, linear_.kernel});
  add("A_log", {linear_.value_heads});
  out.back().f32 = true;
  add("dt_bias", {linear_.value_heads});
  add("norm.weight", {linear_.value});
  out.back().f32 = true;
  add("out_proj.weight", {hidden, values});
  return out;
}

}  // namespace moepack
