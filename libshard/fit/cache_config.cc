// Reads the cache's shape from config.json. Fields are those of the published configs
// (docs/families.md), and absent ones have the values that conversion gives them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/check/promise.h"
#include "libshard/convert/converter.h"
#include "libshard/fit/cache_shape.h"
#include "libshard/model/config_defaults.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

class ConfigCache {
 public:
  // `config` has the `defaults`.
  ConfigCache(const HfConfig& config, std::string_view defaults, const ModelConfig& model,
              const Family& family)
      : config_(config), defaults_(defaults), model_(model), family_(family) {}

  Result<CacheShape> Read() {
    std::vector<CheckFinding> ignored;  // reporting contradictions is up to the check
    SHARD_TRY(promise_, ReadPromise(config_, defaults_, model_, family_, ignored));
    CacheShape shape;
    SHARD_TRY(const auto shared, config_.FindU32(fields::kSharedCaches));
    // The last layers use the keys and values of earlier ones, and so have no cache of their own.
    const uint32_t own = model_.layers - std::min(model_.layers, shared.value_or(0));
    for (uint32_t layer = 0; layer < model_.layers; ++layer) {
      CacheLayer kept;
      if (layer < own) {
        SHARD_TRY(kept, Of(layer, promise_.layers[layer]));
      }
      kept.layer = layer;
      shape.push_back(kept);
    }
    return shape;
  }

 private:
  // A size is at most kMaxModelCount, so that products of three stay exact.
  Result<uint64_t> Size(ConfigKeys keys) const {
    SHARD_TRY(const auto size, config_.FindU32(keys));
    if (size.value_or(0) <= kMaxModelCount) return uint64_t{size.value_or(0)};
    return config_.Wrong(*config_.Find(keys), Cat("at most ", kMaxModelCount));
  }
  // The numbers of a kind of layer that has this field.
  Result<uint64_t> Needed(uint32_t layer, ConfigKeys keys) const {
    SHARD_TRY(const uint64_t size, Size(keys));
    if (size > 0) return size;
    return Unknown(layer, Cat(*keys.begin(), ": expected a size, found none"));
  }
  Error Unknown(uint32_t layer, const std::string& what) const {
    return {Code::kUnsupported,
            Cat(config_.where(), ": layer ", layer, ": size of the cache: ", what),
            "without --node and --context a plan needs no cache"};
  }

  Result<CacheLayer> Of(uint32_t layer, const LayerPromise& promised) const {
    switch (promised.kind) {
      case LayerKind::kUnnamed:
        if (promised.attention.empty()) return Unnamed(layer);
        break;
      case LayerKind::kFull:
        return Full(layer);
      case LayerKind::kWindow:
        return Windowed(layer, fields::kWindow);
      case LayerKind::kChunked:
        return Windowed(layer, fields::kChunk);
      case LayerKind::kLinear:
        return Linear(layer);
      case LayerKind::kMamba:
        return Mamba(layer);
      case LayerKind::kConvolution:
        return ShortConvolution(layer);
      case LayerKind::kExperts:
      case LayerKind::kDense:
        return CacheLayer{};
      case LayerKind::kOther:
        break;
    }
    return Unknown(layer,
                   Cat("expected a known kind of attention, found ", Quoted(promised.attention)));
  }

  // Layers of configs that name no kinds. Families with recurrent layers must name them, and where
  // llama.cpp builds a window into its graph, a converted file has it. All others are full
  // attention.
  Result<CacheLayer> Unnamed(uint32_t layer) const {
    if (HasOtherMixers(family_)) {
      return Unknown(layer, "expected the kind of the layer (layer_types), found none");
    }
    const GgufConverter* converter = FindConverter(family_.name);
    const auto window =
        converter == nullptr ? std::nullopt : FindArchitecture(converter->architecture)->window;
    if (!window || (layer + 1) % window->period == 0) return Full(layer);
    return Windowed(layer, window->reads_key ? fields::kWindow : fields::kChunk, window->tokens);
  }

  // llama.cpp computes latent attention in its absorbed form.
  Result<CacheLayer> Latent() const {
    CacheLayer kept;
    SHARD_TRY(const uint64_t indexer, Size(fields::kIndexSize));
    kept.key = promise_.latent->rank + promise_.latent->rope + indexer;
    return kept;
  }

  Result<uint64_t> KeyHeads(uint32_t layer) const {
    SHARD_TRY(const uint64_t heads, Size(fields::kKeyHeads));
    if (heads > 0) return heads;
    const auto nested = config_.Find({"attn_config"});  // DBRX
    if (nested && nested->value->is_object() && nested->value->contains("kv_n_heads")) {
      const Json& count = (*nested->value)["kv_n_heads"];
      if (count.is_number_unsigned() && count.get<uint64_t>() <= kMaxModelCount) {
        return count.get<uint64_t>();
      }
    }
    return Needed(layer, fields::kHeads);  // multi-head attention names no key heads
  }

  Result<uint64_t> HeadSize(uint32_t layer) const {
    SHARD_TRY(const uint64_t size, Size(fields::kHeadSize));
    if (size > 0) return size;
    SHARD_TRY(const uint64_t hidden, Needed(layer, fields::kHiddenSize));
    SHARD_TRY(const uint64_t heads, Needed(layer, fields::kHeads));
    if (hidden % heads == 0) return hidden / heads;
    return Unknown(layer, "head_dim: expected a size, found none");
  }

  Result<CacheLayer> Full(uint32_t layer) const {
    if (promise_.latent) return Latent();
    SHARD_TRY(uint64_t heads, KeyHeads(layer));
    SHARD_TRY(uint64_t size, HeadSize(layer));
    SHARD_TRY(const uint64_t wide_heads, Size(fields::kGlobalKeyHeads));
    SHARD_TRY(const uint64_t wide, Size(fields::kGlobalHeadSize));
    if (wide_heads > 0) heads = wide_heads;
    if (wide > 0) size = wide;
    SHARD_TRY(const uint64_t value, Size(fields::kValueHeadSize));
    return CacheLayer{.key = heads * size, .value = heads * (value > 0 ? value : size)};
  }

  // A size of layers with a window that is in a separate object (Step-3.5); 0 without it.
  Result<uint64_t> OtherSize(ConfigKeys keys) const {
    const auto other = config_.Find(fields::kOtherAttention);
    if (!other || !other->value->is_object()) return uint64_t{0};
    SHARD_TRY(const HfConfig own,
              HfConfig::Parse(Cat(config_.where(), ": ", other->path), other->value->dump()));
    SHARD_TRY(const auto size, own.FindU32(keys));
    if (size.value_or(0) <= kMaxModelCount) return uint64_t{size.value_or(0)};
    return own.Wrong(*own.Find(keys), Cat("at most ", kMaxModelCount));
  }

  // `usual` is the window of a config that does not name one; with 0, it must.
  Result<CacheLayer> Windowed(uint32_t layer, ConfigKeys field, uint32_t usual = 0) const {
    SHARD_TRY(uint64_t heads, KeyHeads(layer));
    SHARD_TRY(uint64_t size, HeadSize(layer));
    SHARD_TRY(uint64_t value, Size(config_.Has(fields::kWindowValueSize) ? fields::kWindowValueSize
                                                                         : fields::kValueHeadSize));
    SHARD_TRY(const uint64_t own_heads, Size(fields::kWindowKeyHeads));
    SHARD_TRY(const uint64_t own_size, Size(fields::kWindowHeadSize));
    SHARD_TRY(const uint64_t other_heads, OtherSize(fields::kKeyHeads));
    SHARD_TRY(const uint64_t other_size, OtherSize(fields::kHeadSize));
    if (own_heads > 0) heads = own_heads;
    if (own_size > 0) size = own_size;
    if (other_heads > 0) heads = other_heads;
    if (other_size > 0) size = other_size;
    if (value == 0) value = size;
    SHARD_TRY(const auto window, config_.FindU32(field));
    if (window.value_or(usual) == 0) {
      return Unknown(layer, Cat(*field.begin(), ": expected the tokens of the window, found none"));
    }
    return CacheLayer{
        .key = heads * size, .value = heads * value, .window = window.value_or(usual)};
  }

  Result<CacheLayer> Linear(uint32_t layer) const {
    SHARD_TRY(const uint64_t key_heads, Needed(layer, fields::kLinearKeyHeads));
    SHARD_TRY(const uint64_t value_heads, Needed(layer, fields::kLinearValueHeads));
    SHARD_TRY(const uint64_t key, Needed(layer, fields::kLinearKeySize));
    SHARD_TRY(const uint64_t value, Needed(layer, fields::kLinearValueSize));
    SHARD_TRY(const uint64_t kernel, Needed(layer, fields::kLinearKernel));
    // The convolution runs over queries, keys and values, and keeps all tokens that it sees but the
    // current one. Each value head has a matrix of its key by its value size.
    const uint64_t channels = 2 * key_heads * key + value_heads * value;
    return CacheLayer{.state = (kernel - 1) * channels + value_heads * value * key};
  }

  // Mamba-2 has heads and groups; Jamba's Mamba-1 is `mamba_expand` times as wide as the model. The
  // convolution runs over the inner values and each group's B and C (n_embd_r in
  // llama-hparams.cpp).
  Result<CacheLayer> Mamba(uint32_t layer) const {
    SHARD_TRY(const uint64_t numbers, Needed(layer, fields::kMambaState));
    SHARD_TRY(const uint64_t kernel, Needed(layer, fields::kMambaKernel));
    SHARD_TRY(const uint64_t heads, Size(fields::kMambaHeads));
    SHARD_TRY(const uint64_t size, Size(fields::kMambaHeadSize));
    SHARD_TRY(const uint64_t groups, Size(fields::kMambaGroups));
    uint64_t inner = heads * size;
    if (inner == 0) {
      SHARD_TRY(const uint64_t hidden, Needed(layer, fields::kHiddenSize));
      SHARD_TRY(const uint64_t times, Needed(layer, fields::kMambaExpand));
      inner = hidden * times;
    }
    return CacheLayer{.state = (kernel - 1) * (inner + 2 * groups * numbers) + inner * numbers};
  }

  Result<CacheLayer> ShortConvolution(uint32_t layer) const {
    SHARD_TRY(const uint64_t hidden, Needed(layer, fields::kHiddenSize));
    SHARD_TRY(const uint64_t kernel, Needed(layer, {"conv_L_cache"}));
    return CacheLayer{.state = hidden * (kernel - 1)};
  }

  const HfConfig& config_;
  const std::string_view defaults_;
  const ModelConfig& model_;
  const Family& family_;
  ModelPromise promise_;
};

}  // namespace

Result<CacheShape> ConfigCacheShape(const HfConfig& config, const ModelConfig& model,
                                    const Family& family) {
  const std::string_view defaults = ConfigDefaults(family, model);
  SHARD_TRY(const HfConfig complete, config.WithDefaults(defaults));
  return ConfigCache(complete, defaults, model, family).Read();
}

Result<CacheShape> ReadCacheShape(const MoeModel& model) {
  const std::string where = model.config_path().string();
  if (model.checkpoint().is_gguf()) {
    return GgufCacheShape(where, model.checkpoint().metadata());
  }
  if (!model.has_config()) {
    return Error{Code::kUnsupported,
                 Cat(model.checkpoint().source().string(),
                     ": size of the cache: expected config.json, found none"),
                 "put it beside the checkpoint or name it with --config"};
  }
  SHARD_TRY(const HfConfig config, HfConfig::Parse(where, model.config_text()));
  return ConfigCacheShape(config, model.config(), model.family());
}

}  // namespace moepack
