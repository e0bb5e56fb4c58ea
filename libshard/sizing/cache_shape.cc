// Reads the cache's shape from config.json. Fields are those of the published configs
// (docs/families.md), and absent ones have the values that conversion gives them.
#include "libshard/sizing/cache_shape.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "libshard/base/bytes.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"
#include "libshard/check/promise.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/model/config_defaults.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/gguf_keys.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

// Layers with this ratio have an indexer, and their blocks overlap.
constexpr uint64_t kIndexedCompression = 4;

// The numbers of DeepSeek-V4's attention.
struct CompressedSizes {
  uint64_t key = 0, window = 0, ratio = 0, indexer = 0;
};
CacheLayer CompressedLayer(const CompressedSizes& sizes) {
  CacheLayer kept{.key = sizes.key, .window = sizes.window};
  if (sizes.ratio == 0) return kept;
  kept.ratio = sizes.ratio;
  kept.compressed = sizes.key;
  kept.state = 2 * sizes.ratio * sizes.key;  // a value and a score for each number of a key
  if (sizes.ratio != kIndexedCompression) return kept;
  kept.compressed += sizes.indexer;
  // Of two blocks, and for the keys of two.
  kept.state = 2 * (2 * sizes.ratio) * (2 * kept.compressed);
  return kept;
}

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
  static Result<uint64_t> SizeIn(const HfConfig& config, ConfigKeys keys) {
    SHARD_TRY(const auto size, config.FindU32(keys));
    if (size.value_or(0) <= kMaxModelCount) return uint64_t{size.value_or(0)};
    return config.Wrong(*config.Find(keys), Cat("at most ", kMaxModelCount));
  }
  Result<uint64_t> Size(ConfigKeys keys) const { return SizeIn(config_, keys); }
  // The size in an object of the config; 0 without the object.
  Result<uint64_t> SizeWithin(ConfigKeys object, ConfigKeys keys) const {
    if (!config_.Has(object)) return uint64_t{0};
    SHARD_TRY(const HfConfig inner, config_.Within(*object.begin()));
    return SizeIn(inner, keys);
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
    if (config_.Has(fields::kCompressRatios)) return Compressed(layer);
    switch (promised.kind) {
      case LayerKind::kUnnamed:
        if (promised.attention.empty() || !promised.indexer) return Unnamed(layer);
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
    if (!window || window->IsFull(layer)) return Full(layer);
    return Windowed(layer, window->reads_key ? fields::kWindow : fields::kChunk, window->tokens);
  }

  // llama.cpp computes latent attention in its absorbed form.
  // Layers that use the indexer of another one keep no keys for it.
  Result<CacheLayer> Latent(uint32_t layer) const {
    CacheLayer kept;
    SHARD_TRY(const uint64_t indexer, Size(fields::kIndexSize));
    kept.key = promise_.latent->rank + promise_.latent->rope;
    if (promise_.layers[layer].indexer) kept.key += indexer;
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
    if (promise_.latent) return Latent(layer);
    SHARD_TRY(uint64_t heads, KeyHeads(layer));
    SHARD_TRY(uint64_t size, HeadSize(layer));
    SHARD_TRY(const uint64_t wide_heads, Size(fields::kGlobalKeyHeads));
    SHARD_TRY(const uint64_t wide, Size(fields::kGlobalHeadSize));
    if (wide_heads > 0) heads = wide_heads;
    if (wide > 0) size = wide;
    SHARD_TRY(const uint64_t value, Size(fields::kValueHeadSize));
    SHARD_TRY(const uint64_t indexer, IndexSize(layer));
    return CacheLayer{.key = heads * size + indexer, .value = heads * (value > 0 ? value : size)};
  }

  // The key of an indexer beside usual attention: of Qwen3.8-Flash-Next, or of MiniMax-M3, whose
  // dense layers have none.
  Result<uint64_t> IndexSize(uint32_t layer) const {
    SHARD_TRY(const uint64_t own, Size(fields::kOwnIndexSize));
    if (own > 0) return own;
    if (!promise_.layers[layer].moe.value_or(true)) return uint64_t{0};
    return SizeWithin(fields::kSparseSettings, fields::kSparseIndexSize);
  }

  // `usual` is the window of a config that does not name one; with 0, it must.
  Result<CacheLayer> Windowed(uint32_t layer, ConfigKeys field, uint32_t usual = 0) const {
    SHARD_TRY(uint64_t heads, KeyHeads(layer));
    SHARD_TRY(uint64_t size, HeadSize(layer));
    SHARD_TRY(uint64_t value, Size(config_.Has(fields::kWindowValueSize) ? fields::kWindowValueSize
                                                                         : fields::kValueHeadSize));
    SHARD_TRY(const uint64_t own_heads, Size(fields::kWindowKeyHeads));
    SHARD_TRY(const uint64_t own_size, Size(fields::kWindowHeadSize));
    // Step-3.5 has their sizes in a separate object.
    SHARD_TRY(const uint64_t other_heads, SizeWithin(fields::kOtherAttention, fields::kKeyHeads));
    SHARD_TRY(const uint64_t other_size, SizeWithin(fields::kOtherAttention, fields::kHeadSize));
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

  Result<CacheLayer> Compressed(uint32_t layer) const {
    SHARD_TRY(const std::vector<uint32_t> ratios, config_.FindU32s(fields::kCompressRatios));
    if (layer >= ratios.size()) {
      return Unknown(layer,
                     Cat(*fields::kCompressRatios.begin(), ": expected a number, found none"));
    }
    CompressedSizes sizes{.ratio = ratios[layer]};
    SHARD_TRY(sizes.key, HeadSize(layer));
    SHARD_TRY(sizes.window, Needed(layer, fields::kWindow));
    SHARD_TRY(sizes.indexer, Size(fields::kIndexSize));
    if (sizes.ratio <= kMaxModelCount) return CompressedLayer(sizes);
    return config_.Wrong(*config_.Find(fields::kCompressRatios),
                         Cat("numbers up to ", kMaxModelCount));
  }

  // Kimi delta attention: heads of one size, and three convolutions over all of them. The sizes are
  // in an object of their own (Kimi) or beside those of the model (Ling).
  Result<CacheLayer> Kda(uint32_t layer) const {
    SHARD_TRY(const uint64_t heads, Needed(layer, fields::kHeads));
    HfConfig sizes = config_;
    if (config_.Has(fields::kLinearSettings)) {
      SHARD_TRY(sizes, config_.Within(*fields::kLinearSettings.begin()));
    }
    SHARD_TRY(const uint64_t size, SizeIn(sizes, fields::kHeadSize));
    SHARD_TRY(const uint64_t kernel, SizeIn(sizes, fields::kShortKernel));
    if (size == 0 || kernel == 0) {
      return Unknown(layer, "head_dim and short_conv_kernel_size: expected sizes, found none");
    }
    const uint64_t inner = heads * size;
    return CacheLayer{.state = 3 * (kernel - 1) * inner + inner * size};
  }

  Result<CacheLayer> Linear(uint32_t layer) const {
    if (!config_.Has(fields::kLinearKeyHeads)) return Kda(layer);
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
    SHARD_TRY(const uint64_t kernel, Needed(layer, fields::kConvolutionKernel));
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

// Reads the cache's shape from the keys of a GGUF model, as llama.cpp's llama-hparams.cpp and the
// load_hparams of its models do.

namespace {

class GgufCache {
 public:
  GgufCache(const std::string& where, const GgufMetadata& metadata) : keys_(where, metadata) {
    const GgufArchitecture* known = FindArchitecture(keys_.architecture());
    if (known != nullptr) architecture_ = *known;
  }

  Result<CacheShape> Read() {
    SHARD_CHECK(ReadSizes());
    SHARD_CHECK(ReadWindow());
    SHARD_CHECK(ReadRecurrence());
    SHARD_TRY(const uint64_t shared, Number("attention.shared_kv_layers"));
    CacheShape shape(layers_);
    for (uint32_t layer = 0; layer < layers_; ++layer) {
      shape[layer] = layer + shared < layers_ ? Of(layer) : CacheLayer{};
      shape[layer].layer = layer;
    }
    return shape;
  }

 private:
  // At most kMaxModelCount, so that products of three sizes stay exact.
  Result<uint64_t> Number(std::string_view name) const {
    SHARD_TRY(const uint32_t number, keys_.Number(name, kMaxModelCount));
    return uint64_t{number};
  }
  // One number per layer; a single one applies to all.
  Result<std::vector<uint32_t>> PerLayer(std::string_view name) const {
    SHARD_TRY(std::vector<uint32_t> numbers, keys_.Numbers(name, kMaxModelCount));
    if (numbers.size() == 1) numbers.assign(layers_, numbers[0]);
    if (numbers.empty() || numbers.size() >= layers_) return numbers;
    return keys_.Wrong(name, Cat("one number, or one per layer (", layers_, ")"));
  }

  Status ReadSizes() {
    SHARD_TRY(const uint64_t blocks, Number("block_count"));
    SHARD_TRY(const uint64_t predicted, Number("nextn_predict_layers"));
    if (blocks == 0 || blocks > kMaxLayers || predicted >= blocks) {
      return keys_.Wrong("block_count", Cat("1 to ", kMaxLayers, " blocks"));
    }
    layers_ = static_cast<uint32_t>(blocks - predicted);
    SHARD_TRY(heads_, PerLayer("attention.head_count"));
    SHARD_TRY(key_heads_, PerLayer("attention.head_count_kv"));
    if (key_heads_.empty()) key_heads_ = heads_;
    SHARD_TRY(key_, Number("attention.key_length"));
    SHARD_TRY(value_, Number("attention.value_length"));
    SHARD_TRY(const uint64_t width, Number("embedding_length"));
    const uint64_t most = heads_.empty() ? 0 : *std::max_element(heads_.begin(), heads_.end());
    if (key_heads_.empty() || ((key_ == 0 || value_ == 0) && (most == 0 || width % most != 0))) {
      return Error{Code::kUnsupported,
                   Cat(keys_.where(), ": size of the cache: key ",
                       Quoted(keys_.Key("attention.key_length")), ": expected a size, found none"),
                   "without --node and --context a plan needs no cache"};
    }
    if (key_ == 0) key_ = width / most;
    if (value_ == 0) value_ = width / most;
    SHARD_TRY(const uint64_t absorbed, Number("attention.key_length_mla"));
    latent_ = absorbed > 0;
    SHARD_TRY(indexer_, Number("attention.indexer.key_length"));
    // Ratios without a rotation of their own are those of an indexer alone (Qwen3.8-Flash-Next).
    if (keys_.Find("attention.compress_rope_freq_base") != nullptr) {
      SHARD_TRY(ratios_, PerLayer("attention.compress_ratios"));
    }
    return ReadIndexers();
  }

  // Layers may use the indexer of another one, and MiniMax-M3's dense layers have none.
  Status ReadIndexers() {
    indexed_.assign(layers_, true);
    const GgufValue* const types = keys_.Find("attention.indexer.types");
    if (types != nullptr && types->type == GgufType::kArray)
      return ReadFlags("attention.indexer.types", indexed_);
    if (keys_.Find("attention.indexer.block_size") == nullptr) return Ok();
    SHARD_TRY(const uint64_t dense, Number("leading_dense_block_count"));
    std::fill_n(indexed_.begin(), std::min<uint64_t>(dense, layers_), false);
    return Ok();
  }

  Status ReadWindow() {
    windowed_.assign(layers_, false);
    SHARD_TRY(swa_key_, Number("attention.key_length_swa"));
    SHARD_TRY(swa_value_, Number("attention.value_length_swa"));
    SHARD_TRY(window_, keys_.Number("attention.sliding_window", kMaxModelWidth));
    BuiltInWindow rule = architecture_.window.value_or(BuiltInWindow{0, 0, true});
    if (!rule.reads_key) window_ = rule.tokens;
    const GgufValue* pattern = keys_.Find("attention.sliding_window_pattern");
    if (window_ > 0 && pattern != nullptr && pattern->type == GgufType::kArray) {
      return ReadFlags("attention.sliding_window_pattern", windowed_);
    }
    if (pattern != nullptr) {
      SHARD_TRY(rule.period, Number("attention.sliding_window_pattern"));
    }
    // As llama.cpp's set_swa_pattern: one layer of each period sees everything.
    for (uint32_t layer = 0; window_ > 0 && rule.period > 0 && layer < layers_; ++layer) {
      windowed_[layer] = !rule.IsFull(layer);
    }
    return Ok();
  }

  // Booleans or numbers (MiMo-V2), one per layer, and perhaps for blocks that predict tokens.
  Status ReadFlags(std::string_view name, std::vector<bool>& flags) const {
    const GgufValue* list = keys_.Find(name);
    if (const auto numbers = list->ElementType() ? list->AsUints() : std::nullopt;
        numbers && numbers->size() >= layers_) {
      for (uint32_t layer = 0; layer < layers_; ++layer) flags[layer] = (*numbers)[layer] != 0;
      return Ok();
    }
    const bool fits = list->ElementType() == GgufType::kBool && list->Count() >= layers_;
    if (!fits) return keys_.Wrong(name, Cat("a list of booleans, one per layer (", layers_, ")"));
    constexpr size_t kListHead = 4 + 8;  // element type and count
    for (uint32_t layer = 0; layer < layers_; ++layer) {
      flags[layer] = list->bytes[kListHead + layer] != 0;
    }
    return Ok();
  }

  Status ReadRecurrence() {
    recurrent_.assign(layers_, false);
    SHARD_TRY(const uint64_t kernel, Number("ssm.conv_kernel"));
    SHARD_TRY(const uint64_t inner, Number("ssm.inner_size"));
    SHARD_TRY(const uint64_t size, Number("ssm.state_size"));
    SHARD_TRY(const uint64_t groups, Number("ssm.group_count"));
    SHARD_TRY(const uint64_t short_kernel, Number("shortconv.l_cache"));
    SHARD_TRY(const uint64_t width, Number("embedding_length"));
    SHARD_TRY(const uint64_t kda, Number("kda.head_dim"));
    const uint64_t most = heads_.empty() ? 0 : *std::max_element(heads_.begin(), heads_.end());
    state_ = short_kernel > 0
                 ? width * (short_kernel - 1)
                 : (kernel > 0 ? kernel - 1 : 0) * (inner + 2 * groups * size) + size * inner;
    // Kimi delta attention has a convolution each for queries, keys and values.
    if (kda > 0) state_ = (kernel > 0 ? kernel - 1 : 0) * 3 * most * kda + most * kda * kda;
    if (keys_.Find("attention.recurrent_layers") != nullptr) {
      return ReadFlags("attention.recurrent_layers", recurrent_);
    }
    const bool linear = architecture_.full_interval > 0;
    SHARD_TRY(uint64_t interval, Number("full_attention_interval"));
    if (linear && interval == 0) interval = architecture_.full_interval;
    const bool single = architecture_.single_parts;
    SHARD_TRY(const std::vector<uint32_t> forward, PerLayer("feed_forward_length"));
    // Linear attention has a full layer at the end of each interval. Elsewhere layers without key
    // heads are recurrent, unless they are feed-forward parts (GgufArchitecture::single_parts).
    for (uint32_t layer = 0; layer < layers_; ++layer) {
      const bool other = single && !forward.empty() && forward[layer] != 0;
      recurrent_[layer] =
          linear ? layer % interval + 1 < interval : key_heads_[layer] == 0 && !other;
    }
    return Ok();
  }

  CacheLayer Of(uint32_t layer) const {
    if (recurrent_[layer]) return {.state = state_};
    if (!ratios_.empty()) return CompressedLayer({key_, window_, ratios_[layer], indexer_});
    const uint64_t heads = key_heads_[layer];
    if (heads == 0) return {};
    const bool window = windowed_[layer];
    const uint64_t key = window && swa_key_ > 0 ? swa_key_ : key_;
    const uint64_t value = window && swa_value_ > 0 ? swa_value_ : value_;
    return {.key = heads * key + (indexed_[layer] ? indexer_ : 0),
            .value = latent_ ? 0 : heads * value,
            .window = window ? window_ : 0};
  }

  GgufKeys keys_;
  GgufArchitecture architecture_;  // nothing is built in for one that is not known
  uint32_t layers_ = 0;
  std::vector<uint32_t> heads_, key_heads_, ratios_;
  uint64_t key_ = 0, value_ = 0, swa_key_ = 0, swa_value_ = 0;
  uint64_t window_ = 0, indexer_ = 0, state_ = 0;
  bool latent_ = false;
  std::vector<bool> windowed_, recurrent_, indexed_;
};

}  // namespace

Result<CacheShape> GgufCacheShape(const std::string& where, const GgufMetadata& metadata) {
  return GgufCache(where, metadata).Read();
}

namespace {

// llama.cpp's --cache-type-k and --cache-type-v.
constexpr std::array<std::string_view, 9> kCacheTypes = {"f32",  "f16",    "bf16", "q8_0", "q4_0",
                                                         "q4_1", "iq4_nl", "q5_0", "q5_1"};
constexpr uint64_t kCellMultiple = 256;  // llama-context.cpp: GGML_PAD(n_ctx_seq, 256)
constexpr uint64_t kStateBytes = 4;      // F32

// The product of numbers that users and configs choose; no value on overflow.
std::optional<uint64_t> Product(std::initializer_list<uint64_t> factors) {
  uint64_t product = 1;
  for (const uint64_t factor : factors) {
    const auto next = CheckedMul(product, factor);
    if (!next) return std::nullopt;
    product = *next;
  }
  return product;
}

uint64_t CellsOf(const CacheLayer& layer, uint64_t context) {
  const uint64_t all = AlignUp(context, kCellMultiple);
  // A layer with a sliding window keeps the window and one batch on top of it
  // (llama-kv-cache-iswa.cpp).
  if (layer.window == 0) return all;
  return std::min(all, AlignUp(std::min(context, layer.window + kBatchTokens), kCellMultiple));
}

// As many as tokens of the whole session have blocks.
uint64_t CompressedCells(const CacheLayer& layer, uint64_t context) {
  if (layer.ratio == 0 || context == 0) return 0;
  const uint64_t blocks = (AlignUp(context, kCellMultiple) - 1) / layer.ratio + 1;
  return AlignUp(blocks, kCellMultiple);
}

// The bytes of so many numbers of a layer.
Result<uint64_t> BytesOfNumbers(const CacheLayer& layer, uint64_t numbers,
                                const quant::Format& type) {
  if (const auto bytes = type.BytesFor(numbers)) return *bytes;
  return Error{Code::kInvalidArgument,
               Cat("--kv-type ", type.name, ": layer ", layer.layer, ": expected a multiple of ",
                   type.block_values, " numbers per token, found ", numbers),
               "f16 takes any number"};
}

Error TooLarge() {
  return {Code::kInvalidArgument,
          "--context and --sessions: expected a cache of fewer than 2^63 bytes, found more"};
}

}  // namespace

Result<const quant::Format*> CacheType(std::string_view name) {
  const std::string lower = Lower(name);
  if (std::find(kCacheTypes.begin(), kCacheTypes.end(), lower) != kCacheTypes.end()) {
    return quant::FindFormat(lower);
  }
  return NotOneOf("", {kCacheTypes.begin(), kCacheTypes.end()}, name);
}

Result<std::map<uint32_t, uint64_t>> CacheBytesByLayer(const CacheShape& shape,
                                                       const CacheUse& use) {
  std::map<uint32_t, uint64_t> bytes;
  for (const CacheLayer& layer : shape) {
    SHARD_TRY(const uint64_t key, BytesOfNumbers(layer, layer.key, *use.type));
    SHARD_TRY(const uint64_t value, BytesOfNumbers(layer, layer.value, *use.type));
    SHARD_TRY(const uint64_t block, BytesOfNumbers(layer, layer.compressed, *use.type));
    uint64_t sum = 0;
    for (const auto& part : {Product({key + value, CellsOf(layer, use.context), use.sessions}),
                             Product({block, CompressedCells(layer, use.context), use.sessions}),
                             Product({layer.state, kStateBytes, use.sessions})}) {
      const auto next = part ? CheckedAdd(sum, *part) : std::nullopt;
      if (!next || *next > UINT64_MAX / 2) return TooLarge();
      sum = *next;
    }
    bytes[layer.layer] = sum;
  }
  return bytes;
}

Result<uint64_t> CacheBytes(const CacheShape& shape, const CacheUse& use) {
  SHARD_TRY(const auto bytes, CacheBytesByLayer(shape, use));
  uint64_t total = 0;
  for (const auto& [layer, more] : bytes) {
    const auto sum = CheckedAdd(total, more);
    if (!sum || *sum > UINT64_MAX / 2) return TooLarge();
    total = *sum;
  }
  return total;
}

uint64_t ComputeBytes(const MoeModel& model, uint64_t context) {
  constexpr uint64_t kNumberBytes = 4, kVectors = 8, kExpertVectors = 3;
  const ModelConfig& config = model.config();
  uint64_t top_k = 0;
  for (const MoeLayer& layer : model.layers()) top_k = std::max<uint64_t>(top_k, layer.top_k);
  const uint64_t experts =
      top_k * (config.hidden_size + kExpertVectors * uint64_t{config.expert_intermediate_size});
  const uint64_t numbers = config.vocab_size + kVectors * config.hidden_size + experts + context;
  return kNumberBytes * kBatchTokens * numbers;
}

}  // namespace moepack
