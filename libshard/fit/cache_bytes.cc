#include <algorithm>
#include <array>

#include "libshard/base/bytes.h"
#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"
#include "libshard/fit/cache_shape.h"

namespace moepack {
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
    uint64_t row = 0;
    for (const uint64_t numbers : {layer.key, layer.value}) {
      const auto part = use.type->BytesFor(numbers);
      if (!part) {
        return Error{
            Code::kInvalidArgument,
            Cat("--kv-type ", use.type->name, ": layer ", layer.layer, ": expected a multiple of ",
                use.type->block_values, " numbers per token, found ", numbers),
            "f16 takes any number"};
      }
      row += *part;
    }
    const auto kept = Product({row, CellsOf(layer, use.context), use.sessions});
    const auto state = Product({layer.state, kStateBytes, use.sessions});
    const auto both = kept && state ? CheckedAdd(*kept, *state) : std::nullopt;
    if (!both || *both > UINT64_MAX / 2) return TooLarge();
    bytes[layer.layer] = *both;
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

}  // namespace moepack
