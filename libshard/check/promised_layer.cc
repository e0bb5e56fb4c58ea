#include "libshard/check/promised_layer.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "libshard/base/text/text.h"
#include "libshard/check/shapes.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

constexpr std::string_view kLeaf = ".{W}";

bool Has(const TensorRule& rule, std::string_view token) {
  return rule.pattern.find(token) != std::string::npos;
}

// Returns the pattern up to its leaf.
std::string_view StemOf(const TensorRule& rule) {
  const std::string_view pattern = rule.pattern;
  return pattern.ends_with(kLeaf) ? pattern.substr(0, pattern.size() - kLeaf.size()) : pattern;
}

// Returns "layers.{L}.mlp.experts." for "layers.{L}.mlp.experts.gate_proj.{W}"; "" for a name whose
// last component is not a whole word.
std::string_view ContainerOf(const TensorRule& rule) {
  const std::string_view stem = StemOf(rule);
  const size_t dot = stem.rfind('.');
  if (dot == std::string_view::npos || stem.find('{', dot) != std::string_view::npos) return {};
  return stem.substr(0, dot + 1);
}

std::string_view NameOf(const TensorRule& rule) {
  return StemOf(rule).substr(ContainerOf(rule).size());
}

std::optional<Module> ModuleOfRow(const TensorRule& rule) {
  return ModuleOf(rule.role, NameOf(rule));
}

struct Wanted {
  Part part = Part::kTrunk;
  std::string_view role = {};  // "" for any
  bool fused = false;          // gate and up in one tensor, if the family has both forms
  bool explicit_experts = false;
};

// Returns the projections of the first container that has such rows.
std::vector<const TensorRule*> Projections(const Family& family, const Wanted& wanted) {
  std::map<Module, const TensorRule*> modules;
  std::string_view container;
  for (const TensorRule& rule : family.rules) {
    const bool fits = rule.part == wanted.part && Has(rule, "{L}") && rule.role != "shared_gate" &&
                      (wanted.role.empty() || rule.role == wanted.role) &&
                      Has(rule, "{E}") == wanted.explicit_experts;
    const std::string_view own = ContainerOf(rule);
    if (!fits || own.empty() || (!container.empty() && own != container)) continue;
    container = own;
    if (const auto module = ModuleOfRow(rule)) modules.try_emplace(*module, &rule);
  }
  const bool fused =
      modules.contains(Module::kFusedIn) && (wanted.fused || !modules.contains(Module::kGate));
  std::vector<const TensorRule*> out;
  for (const Module module : {Module::kGate, Module::kUp, Module::kFusedIn, Module::kDown}) {
    const bool joined = module == Module::kFusedIn, last = module == Module::kDown;
    if ((joined != fused && !last) || !modules.contains(module)) continue;
    out.push_back(modules[module]);
  }
  return out;
}

std::vector<std::string> Names(const std::vector<const TensorRule*>& rules, std::string_view leaf) {
  std::vector<std::string> names;
  for (const TensorRule* rule : rules) {
    names.push_back(Cat(StemOf(*rule), rule->pattern.ends_with(kLeaf) ? leaf : ""));
  }
  return names;
}

// Returns the first row of `role` in a layer, or outside layers, whose components are whole words.
std::string First(const Family& family, std::string_view role, bool layered) {
  for (const TensorRule& rule : family.rules) {
    if (rule.role != role || Has(rule, "{M}") || Has(rule, "{L}") != layered) continue;
    if (Has(rule, "{*}") || Has(rule, "{**}")) continue;
    return Cat(StemOf(rule), rule.pattern.ends_with(kLeaf) ? ".weight" : "");
  }
  return "";
}

}  // namespace

PromisedRows::PromisedRows(const Family& family) {
  embedding = First(family, "embedding", false);
  for (const TensorRule& rule : family.rules) {
    if (rule.pattern == "word_embeddings.{W}") embedding = "word_embeddings.weight";
  }
  norm = First(family, "norm", false);
  head = First(family, "head", false);
  router = First(family, "router", true);
  selection_bias = First(family, "selection_bias", true);
  bias_row = std::any_of(family.rules.begin(), family.rules.end(), [](const TensorRule& rule) {
    return rule.role == "selection_bias" && rule.expert_axis == -1;
  });
  shared_gate = First(family, "shared_gate", true);
  for (const TensorRule& rule : family.rules) {
    layer_norms = layer_norms || rule.pattern == "layers.{L}.{*}norm.{W}";
    appended_mtp = appended_mtp || (rule.role == "mtp" && Has(rule, "{L}"));
    own_mtp = own_mtp || rule.pattern == "mtp.layers.{M}.self_attn.{**}";
  }
  // Families that store packed experts transposed always pack them.
  const bool fused = family.facts.transposed || family.promise.packed;
  auto rules = Projections(family, {Part::kExpert, {}, fused, !fused});
  packed = fused || rules.empty();
  if (rules.empty()) rules = Projections(family, {Part::kExpert, {}, fused, false});
  experts = Names(rules, fused ? "" : ".weight");
  shared = Names(Projections(family, {.part = Part::kShared}), ".weight");
  dense = Names(Projections(family, {.part = Part::kTrunk, .role = "dense_mlp"}), ".weight");
}

std::string Spelled(std::string_view pattern, uint32_t layer, uint32_t expert) {
  std::string out;
  while (!pattern.empty()) {
    const size_t brace = std::min(pattern.find('{'), pattern.size());
    out += pattern.substr(0, brace);
    pattern.remove_prefix(brace);
    if (pattern.empty()) break;
    out += std::to_string(pattern.starts_with("{E}") ? expert : layer);
    pattern.remove_prefix(3);
  }
  return out;
}

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

std::vector<PromisedTensor> AttentionOutline::Of(LayerKind kind, bool indexer) const {
  if (!has_rows_) return {};
  if (kind == LayerKind::kLinear && promise_->linear_attention) return Linear();
  if (std::find(kOrdinary.begin(), kOrdinary.end(), kind) == kOrdinary.end()) return {};
  if (mixers_) return {};
  if (joined_) return Joined();
  return promise_->latent ? Latent(indexer) : Standard();
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

std::vector<PromisedTensor> AttentionOutline::Latent(bool indexer) const {
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
  if (!indexer || indexer_.heads == 0 || indexer_.size == 0 || rank == 0) return out;
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
