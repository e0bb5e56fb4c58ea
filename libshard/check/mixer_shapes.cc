#include "libshard/check/mixer_shapes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/check/layer_names.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

class MixerReader {
 public:
  MixerReader(const HfConfig& config, const Family& family, ModelPromise& promise,
              std::vector<CheckFinding>& findings)
      : config_(config), family_(family), out_(promise), findings_(findings) {}

  Status Read() {
    if (HasRows([](const TensorRule& rule) { return rule.role == "mamba"; }))
      SHARD_CHECK(ReadMamba());
    if (HasRows([](const TensorRule& rule) { return Contains(rule, ".conv."); })) {
      SHARD_TRY(const uint64_t kernel, Size(config_, fields::kConvolutionKernel));
      if (kernel > 1) out_.short_kernel = kernel;  // conversion refuses 1
    }
    SHARD_CHECK(ReadDelta());
    SHARD_CHECK(ReadKda());
    SHARD_CHECK(ReadHeadsPerLayer());
    SHARD_CHECK(ReadWindowHeads());
    for (const ConfigKeys keys :
         {fields::kIndexSize, fields::kIndexHeads, fields::kOwnIndexSize, fields::kWindowHeadSize,
          fields::kWindowValueSize, fields::kWindowKeyHeads, fields::kGlobalHeadSize,
          fields::kGlobalKeyHeads})
      SHARD_CHECK(Size(config_, keys));
    return Ok();
  }

 private:
  static bool Contains(const TensorRule& rule, std::string_view part) {
    return rule.pattern.find(part) != std::string::npos;
  }
  template <class Test>
  bool HasRows(const Test& test) const {
    return std::any_of(family_.rules.begin(), family_.rules.end(), test);
  }

  // Reads a size, which must not be 0 if it is given; 0 if it is not, or is a word ("auto").
  Result<uint64_t> Size(const HfConfig& config, ConfigKeys keys) {
    const auto field = config.Find(keys);
    if (!field || field->value->is_string()) return uint64_t{0};
    SHARD_TRY(const std::optional<uint32_t> size, config.FindU32(keys));
    if (*size == 0) findings_.push_back({FindingKind::kConfig, field->path, "at least 1", "0"});
    return uint64_t{*size};
  }

  Status ReadInto(const HfConfig& config, ConfigKeys keys, uint64_t& size) {
    SHARD_TRY(size, Size(config, keys));
    return Ok();
  }

  Status ReadMamba() {
    MambaPromise mamba;
    SHARD_TRY(mamba.heads, Size(config_, fields::kMambaHeads));
    SHARD_TRY(mamba.size, Size(config_, fields::kMambaHeadSize));
    SHARD_TRY(mamba.state, Size(config_, fields::kMambaState));
    SHARD_TRY(mamba.groups, Size(config_, fields::kMambaGroups));
    SHARD_TRY(mamba.kernel, Size(config_, fields::kMambaKernel));
    // Mamba-1 has no heads.
    if (mamba.inner() > 0 && mamba.state > 0 && mamba.groups > 0 && mamba.kernel > 0)
      out_.mamba = mamba;
    return Ok();
  }

  Status ReadDelta() {
    DeltaPromise delta;
    SHARD_TRY(delta.key_heads, Size(config_, fields::kLinearKeyHeads));
    SHARD_TRY(delta.value_heads, Size(config_, fields::kLinearValueHeads));
    SHARD_TRY(delta.key, Size(config_, fields::kLinearKeySize));
    SHARD_TRY(delta.value, Size(config_, fields::kLinearValueSize));
    SHARD_TRY(delta.kernel, Size(config_, fields::kLinearKernel));
    if (delta.key_heads * delta.key > 0 && delta.value_heads * delta.value > 0 && delta.kernel > 0)
      out_.delta = delta;
    return Ok();
  }

  // Its sizes are in an object of their own (Kimi), or beside those of the model (Ling).
  Status ReadKda() {
    HfConfig sizes = config_;
    KdaPromise kda;
    kda.low_rank = config_.Has(fields::kLinearSettings);
    if (kda.low_rank) {
      SHARD_TRY(sizes, config_.Within(*fields::kLinearSettings.begin()));
    }
    SHARD_TRY(kda.kernel, Size(sizes, fields::kShortKernel));
    SHARD_TRY(const HeadsPromise usual, UsualHeads());  // of which 0 is reported elsewhere
    kda.heads = usual.heads;
    kda.size = usual.size;
    if (kda.low_rank) SHARD_CHECK(ReadInto(sizes, fields::kHeadSize, kda.size));
    if (kda.kernel > 0 && kda.heads > 0 && kda.size > 0) out_.kda = kda;
    return Ok();
  }

  Status ReadHeadsPerLayer() {
    const auto field = config_.Find(fields::kHeadsPerLayer);
    if (!field) return Ok();
    SHARD_TRY(const std::vector<uint32_t> heads, config_.FindU32s(fields::kHeadsPerLayer));
    if (heads.size() != out_.layers.size()) {
      findings_.push_back({FindingKind::kConfig, field->path,
                           Cat("one number per layer (", out_.layers.size(), ")"),
                           Cat(heads.size())});
      return Ok();
    }
    SHARD_TRY(const HeadsPromise usual, UsualHeads());
    for (size_t layer = 0; layer < heads.size(); ++layer) {
      SetHeads(Cat(field->path, "[", layer, "]"), {heads[layer], usual.key_heads, usual.size},
               out_.layers[layer]);
    }
    return Ok();
  }

  // Layers with a window may have heads of their own in a separate object (Step-3.5).
  Status ReadWindowHeads() {
    const auto field = config_.Find(fields::kOtherAttention);
    if (!field || !field->value->is_object()) return Ok();
    SHARD_TRY(const HfConfig own, config_.Within(*fields::kOtherAttention.begin()));
    SHARD_TRY(const HeadsPromise usual, UsualHeads());
    HeadsPromise window;
    SHARD_TRY(window.heads, Size(own, fields::kHeads));
    SHARD_TRY(window.key_heads, Size(own, fields::kKeyHeads));
    SHARD_TRY(window.size, Size(own, fields::kHeadSize));
    if (!own.Has(fields::kHeads)) window.heads = usual.heads;
    if (!own.Has(fields::kKeyHeads)) window.key_heads = usual.key_heads;
    if (!own.Has(fields::kHeadSize)) window.size = usual.size;
    for (LayerPromise& layer : out_.layers) {
      if (layer.kind == LayerKind::kWindow) layer.heads = window;
      if (layer.kind == LayerKind::kFull) layer.heads = usual;
    }
    return Ok();
  }

  Result<HeadsPromise> UsualHeads() const {
    HeadsPromise usual;
    SHARD_TRY(const auto heads, config_.FindU32(fields::kHeads));
    SHARD_TRY(const auto key_heads, config_.FindU32(fields::kKeyHeads));
    SHARD_TRY(const auto size, config_.FindU32(fields::kHeadSize));
    usual.heads = heads.value_or(0);
    usual.key_heads = key_heads.value_or(0);
    usual.size = size.value_or(0);
    return usual;
  }

  void SetHeads(const std::string& field, const HeadsPromise& heads, LayerPromise& layer) {
    const bool divides = heads.key_heads == 0 || heads.heads % heads.key_heads == 0;
    if (heads.heads > 0 && divides) {
      layer.heads = heads;
      return;
    }
    findings_.push_back({FindingKind::kConfig, field,
                         heads.key_heads == 0
                             ? "at least 1"
                             : Cat("a multiple of the ", Plural(heads.key_heads, "key head")),
                         Cat(heads.heads)});
  }

  const HfConfig& config_;
  const Family& family_;
  ModelPromise& out_;
  std::vector<CheckFinding>& findings_;
};

}  // namespace

Status ReadMixers(const HfConfig& config, const Family& family, ModelPromise& promise,
                  std::vector<CheckFinding>& findings) {
  return MixerReader(config, family, promise, findings).Read();
}

void ReadGgufMixers(const GgufMetadata& metadata, ModelPromise& promise) {
  const std::string prefix = metadata.Architecture() + ".";
  const auto number = [&](const char* key) { return metadata.Uint(prefix + key).value_or(0); };
  const uint64_t kernel = number("ssm.conv_kernel");
  promise.short_kernel = number("shortconv.l_cache");
  const uint64_t size = number("kda.head_dim"), heads = number("attention.head_count");
  if (size > 0 && heads > 0 && kernel > 0) {
    promise.kda = {heads, size, kernel,
                   /*low_rank=*/true};  // or not: what depends on it is unknown
    const GgufValue* const counts = metadata.Find(prefix + "attention.head_count_kv");
    const auto key_heads = counts == nullptr ? std::nullopt : counts->AsUints();
    for (size_t layer = 0; key_heads && layer < promise.layers.size(); ++layer) {
      if (layer < key_heads->size() && (*key_heads)[layer] == 0)
        promise.layers[layer].kind = LayerKind::kLinear;
    }
    return;
  }
  MambaPromise mamba;
  mamba.heads = number("ssm.time_step_rank");
  mamba.state = number("ssm.state_size");
  mamba.groups = number("ssm.group_count");
  mamba.kernel = kernel;
  const uint64_t inner = number("ssm.inner_size");
  if (mamba.heads == 0 || inner == 0 || inner % mamba.heads != 0) return;
  mamba.size = inner / mamba.heads;
  if (mamba.state > 0 && mamba.groups > 0 && kernel > 0) promise.mamba = mamba;
}

MixerShapes::MixerShapes(const MoeModel& model, const ModelPromise& promise)
    : model_(model), promise_(promise) {
  if (promise.mamba && promise.hidden > 0) AddMamba(*promise.mamba);
  if (promise.delta && promise.hidden > 0) AddDelta(*promise.delta);
  if (promise.kda && promise.hidden > 0) AddKda(*promise.kda);
  const uint64_t width = promise.hidden, kernel = promise.short_kernel;
  if (width == 0 || kernel == 0) return;
  const bool gguf = model.checkpoint().is_gguf();
  convolution_ = {
      {"conv.weight", gguf ? std::vector{width, kernel} : std::vector{width, 1ul, kernel}},
      {"in_proj.weight", {3 * width, width}},
      {"out_proj.weight", {width, width}}};
}

void MixerShapes::AddMamba(const MambaPromise& mamba) {
  const uint64_t inner = mamba.inner(), channels = mamba.channels(), heads = mamba.heads;
  const std::vector<uint64_t> in = {inner + channels + heads, promise_.hidden};
  const std::vector<uint64_t> out = {promise_.hidden, inner};
  if (!model_.checkpoint().is_gguf()) {
    mamba_ = {{"in_proj.weight", in},
              {"out_proj.weight", out},
              {"conv1d.weight", {channels, 1, mamba.kernel}},
              {"conv1d.bias", {channels}},
              {"A_log", {heads}},
              {"D", {heads}},
              {"dt_bias", {heads}},
              {"norm.weight", {inner}}};
    return;
  }
  // Mamba-1 and linear attention use some of these names for tensors of other shapes, but have no
  // skip (Mamba-1: one of another shape, without groups).
  const bool skips =
      std::any_of(model_.checkpoint().tensors().begin(), model_.checkpoint().tensors().end(),
                  [](const TensorEntry& entry) { return entry.name.ends_with(".ssm_d"); });
  if (!skips) return;
  mamba_ = {{"ssm_in.weight", in},
            {"ssm_out.weight", out},
            {"ssm_conv1d.weight", {channels, mamba.kernel}},
            {"ssm_conv1d.bias", {channels}},
            {"ssm_a", {heads, 1}},
            {"ssm_d", {heads, 1}},
            {"ssm_dt.bias", {heads}}};
  if (inner % mamba.groups == 0) mamba_["ssm_norm.weight"] = {mamba.groups, inner / mamba.groups};
}

void MixerShapes::AddDelta(const DeltaPromise& delta) {
  const uint64_t keys = delta.key_heads * delta.key, values = delta.value_heads * delta.value;
  const uint64_t hidden = promise_.hidden, heads = delta.value_heads;
  delta_ = {{"in_proj_qkvz.weight", {2 * keys + 2 * values, hidden}},
            {"in_proj_ba.weight", {2 * heads, hidden}},
            {"in_proj_qkv.weight", {2 * keys + values, hidden}},
            {"in_proj_z.weight", {values, hidden}},
            {"in_proj_b.weight", {heads, hidden}},
            {"in_proj_a.weight", {heads, hidden}},
            {"conv1d.weight", {2 * keys + values, 1, delta.kernel}},
            {"A_log", {heads}},
            {"dt_bias", {heads}},
            {"norm.weight", {delta.value}},
            {"out_proj.weight", {hidden, values}}};
}

void MixerShapes::AddKda(const KdaPromise& kda) {
  const uint64_t values = kda.heads * kda.size, hidden = promise_.hidden;
  const std::vector<uint64_t> in = {values, hidden}, out = {hidden, values};
  if (model_.checkpoint().is_gguf()) {
    const std::vector<uint64_t> kernel = {values, 1, kda.kernel};
    kda_ = {{"attn_output.weight", out},
            {"ssm_beta.weight", {kda.heads, hidden}},
            {"ssm_dt.bias", {values}},
            {"ssm_norm.weight", {kda.size}}};
    for (const char* part : {"q", "k", "v"}) {
      kda_[Cat("attn_", part, ".weight")] = in;
      kda_[Cat("ssm_conv1d_", part, ".weight")] = kernel;
    }
    return;
  }
  kda_ = {{"o_proj.weight", out},
          {"b_proj.weight", {kda.heads, hidden}},
          {"dt_bias", {values}},
          {"o_norm.weight", {kda.size}},
          {"g_proj.weight", in}};
  for (const char* part : {"q", "k", "v"}) {
    kda_[Cat(part, "_proj.weight")] = in;
    kda_[Cat(part, "_conv1d.weight")] = {values, 1, kda.kernel};
  }
  if (kda.low_rank) return;
  kda_["f_proj.weight"] = in;
  kda_["A_log"] = {kda.heads};
}

namespace {

std::vector<uint64_t> WithoutOnes(std::vector<uint64_t> sizes) {
  std::erase(sizes, uint64_t{1});
  return sizes;
}

}  // namespace

std::optional<Dims> MixerShapes::Of(const ModelTensor& tensor, std::string_view leaf) const {
  const std::string& name = model_.entry(tensor).name;
  if (!tensor.layer || tensor.part != Part::kTrunk) return std::nullopt;
  const LayerPromise* const layer =
      *tensor.layer < promise_.layers.size() ? &promise_.layers[*tensor.layer] : nullptr;
  const std::string& role = tensor.rule->role;
  const bool is_gguf = model_.checkpoint().is_gguf();
  const std::string_view module = ModuleName(name, leaf);
  const std::string end = Cat(module, leaf.empty() ? "" : leaf == "bias" ? ".bias" : ".weight");
  const auto in = [&](const Table& table, const char* why) -> std::optional<Dims> {
    const auto found = table.find(end);
    if (found == table.end()) return std::nullopt;
    std::vector<uint64_t> sizes = found->second;
    // MLX stores the channels of a convolution last, and a GGUF may have other axes of 1.
    const std::vector<uint64_t>& own = model_.entry(tensor).shape;
    const bool kernel = sizes.size() == 3;
    if (kernel && own == std::vector{sizes[0], sizes[2], sizes[1]}) sizes = own;
    if (kernel && is_gguf && WithoutOnes(own) == WithoutOnes(sizes)) sizes = own;
    return Dims{std::move(sizes), why};
  };
  constexpr const char* kConvolution = "kernel of short convolutions, hidden_size";
  constexpr const char* kMamba = "sizes of Mamba layers, hidden_size";
  constexpr const char* kLinear = "sizes of linear attention, hidden_size";
  const bool linear = layer != nullptr && layer->kind == LayerKind::kLinear;
  if (is_gguf) {
    if (name.find(".shortconv.") != std::string::npos) return in(convolution_, kConvolution);
    return linear ? in(kda_, kLinear) : in(mamba_, kMamba);
  }
  if (role == "mamba") return in(mamba_, kMamba);
  if (role != "attention") return std::nullopt;
  if (name.find(".conv.") != std::string::npos) return in(convolution_, kConvolution);
  if (name.find(".linear_attn.") != std::string::npos) return in(delta_, kLinear);
  if (linear) return in(kda_, kLinear);
  return layer != nullptr && layer->heads ? OfHeads(*layer->heads, module, leaf) : std::nullopt;
}

std::optional<Dims> MixerShapes::OfHeads(const HeadsPromise& heads, std::string_view module,
                                         std::string_view leaf) const {
  const uint64_t hidden = promise_.hidden;
  const uint64_t query = heads.heads * heads.size, key = heads.key_heads * heads.size;
  const auto known = ModuleNamed(module);
  const bool bias = leaf == "bias";
  const auto dims = [&](uint64_t out, uint64_t in) {
    return Dims{bias ? std::vector{out} : std::vector{out, in},
                "heads of the layer and their size, hidden_size"};
  };
  if (known == Module::kQuery) return dims(query, hidden);
  if (known == Module::kKey) return dims(key, hidden);
  if (known == Module::kAttentionOut) return dims(hidden, query);
  return std::nullopt;
}

}  // namespace moepack
