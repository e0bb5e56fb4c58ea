// Reads the cache's shape from the keys of a GGUF model, as llama.cpp's llama-hparams.cpp and the
// load_hparams of its models do.
#include <algorithm>
#include <optional>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/fit/cache_shape.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/gguf_keys.h"

namespace moepack {
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
    return Ok();
  }

  Status ReadWindow() {
    windowed_.assign(layers_, false);
    SHARD_TRY(swa_key_, Number("attention.key_length_swa"));
    SHARD_TRY(swa_value_, Number("attention.value_length_swa"));
    SHARD_TRY(window_, keys_.Number("attention.sliding_window", kMaxModelWidth));
    uint64_t period = 0;
    if (const auto& built_in = architecture_.window) {
      period = built_in->period;
      if (!built_in->reads_key) window_ = built_in->tokens;
    }
    const GgufValue* pattern = keys_.Find("attention.sliding_window_pattern");
    if (window_ > 0 && pattern != nullptr && pattern->type == GgufType::kArray) {
      return ReadFlags("attention.sliding_window_pattern", windowed_);
    }
    if (pattern != nullptr) {
      SHARD_TRY(period, Number("attention.sliding_window_pattern"));
    }
    // As llama.cpp's set_swa_pattern: the last layer of each period sees everything.
    for (uint32_t layer = 0; window_ > 0 && period > 0 && layer < layers_; ++layer) {
      windowed_[layer] = layer % period + 1 < period;
    }
    return Ok();
  }

  // A list of booleans or of numbers (MiMo-V2), one per layer or more (of blocks for multi-token
  // prediction).
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
    state_ = short_kernel > 0
                 ? width * (short_kernel - 1)
                 : (kernel > 0 ? kernel - 1 : 0) * (inner + 2 * groups * size) + size * inner;
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
    const uint64_t heads = key_heads_[layer];
    if (heads == 0) return {};
    const bool window = windowed_[layer];
    const uint64_t key = window && swa_key_ > 0 ? swa_key_ : key_;
    const uint64_t value = window && swa_value_ > 0 ? swa_value_ : value_;
    return {.key = heads * key + indexer_,
            .value = latent_ ? 0 : heads * value,
            .window = window ? window_ : 0};
  }

  GgufKeys keys_;
  GgufArchitecture architecture_;  // nothing is built in for one that is not known
  uint32_t layers_ = 0;
  std::vector<uint32_t> heads_, key_heads_;
  uint64_t key_ = 0, value_ = 0, swa_key_ = 0, swa_value_ = 0;
  uint64_t window_ = 0, indexer_ = 0, state_ = 0;
  bool latent_ = false;
  std::vector<bool> windowed_, recurrent_;
};

}  // namespace

Result<CacheShape> GgufCacheShape(const std::string& where, const GgufMetadata& metadata) {
  return GgufCache(where, metadata).Read();
}

}  // namespace moepack
