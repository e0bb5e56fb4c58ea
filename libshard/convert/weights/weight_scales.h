// The scales of a stored weight: which of them are usable, and which are not.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/bytes.h"
#include "libshard/convert/weights/weight.h"

namespace moepack {

// Scales of this type are powers of two, 2^(byte - 127); 255 is NaN.
inline constexpr std::string_view kPowersOfTwo = "F8_E8M0";

// A tensor of scales (F32, BF16, F16 or F8_E8M0) and the file it is in. Borrows both.
class WeightScales {
 public:
  WeightScales() = default;
  WeightScales(const WeightSource& source, const TensorEntry& entry)
      : entry_(&entry), file_(&source.checkpoint.files()[entry.file]) {}

  const TensorEntry& entry() const { return *entry_; }
  uint64_t value_bytes() const { return entry_->format->block_bytes; }
  std::vector<float> Decode(std::span<const std::byte> bytes) const;

  static bool IsUsable(float scale) { return std::isfinite(scale); }
  // kCorrupt: value number `index` of the tensor is not usable.
  Error Unusable(float scale, uint64_t index) const;
  // kCorrupt: a scale of zero for codes that are not all zero. Whatever wrote them did not multiply
  // by it.
  Error Zero(uint64_t index) const;
  // A usable scale as the F16 that blocks of `to` store, counted in `report`. kUnsupported if it is
  // too large for that.
  Result<uint16_t> Half(float scale, uint64_t index, const quant::Format* to,
                        GridReport& report) const;

 private:
  // "<path>: tensor <name>: scale at [3, 7]"
  std::string Place(uint64_t index) const;

  const TensorEntry* entry_ = nullptr;
  const SourceFile* file_ = nullptr;
};

// Unsigned integers of 2, 4 or 8 bits in 32-bit words, as compressed-tensors, GPTQ and AWQ pack
// them.

struct PackedBits {
  uint32_t bits = 4;
  // Which integer of a word holds value i; null: the i-th from the lowest bits.
  const uint8_t* places = nullptr;

  uint32_t per_word() const { return 32 / bits; }
  // The number of words for `values` values; cannot overflow.
  uint64_t WordsFor(uint64_t values) const {
    return values / per_word() + (values % per_word() != 0);
  }
  // Value i of words that begin at `words`. REQUIRES: they reach that far.
  uint32_t At(std::span<const std::byte> words, uint64_t i) const {
    const uint64_t in_word = i % per_word();
    const uint64_t place = places == nullptr ? in_word : places[in_word];
    const auto word = LoadLe<uint32_t>(words.subspan(i / per_word() * sizeof(uint32_t)));
    return word >> (place * bits) & ((1u << bits) - 1);
  }
  // Unpacks the first out.size() values of such words.
  void Unpack(std::span<const std::byte> words, std::span<uint8_t> out) const {
    const uint64_t values = per_word();
    for (uint64_t begin = 0; begin < out.size(); begin += values) {
      const auto word = LoadLe<uint32_t>(words.subspan(begin / values * sizeof(uint32_t)));
      const uint64_t count = std::min<uint64_t>(values, out.size() - begin);
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t place = places == nullptr ? i : places[i];
        out[begin + i] = static_cast<uint8_t>(word >> (place * bits) & ((1u << bits) - 1));
      }
    }
  }
};

}  // namespace moepack
