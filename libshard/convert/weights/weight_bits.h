// Unsigned integers of 2, 4 or 8 bits in 32-bit words, as compressed-tensors, GPTQ and AWQ pack
// them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "libshard/base/bytes.h"

namespace moepack {

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
