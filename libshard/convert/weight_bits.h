// Unsigned integers of 2, 4 or 8 bits in 32-bit words, as compressed-tensors, GPTQ and AWQ pack
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libshard/bytes.h"

namespace shard {

struct PackedBits {
  uint32_t bits = 4;
  // Which of a word's integers has value i; null: the i-th from the lowest bits.
  const uint8_t* places = nullptr;

  uint32_t per_word() const { return 32 / bits; }
  // Words for `values` values; no overflow.
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
};

// 32 codes of four bits, of which byte j of `pairs` has 2j in its low and 2j + 1 in its high half,
// as ggml has them: j and j + 16 in byte j.
inline void SplitPairs(std::span<const std::byte> pairs, std::span<std::byte> out) {
  constexpr size_t kBytes = 16;
  const auto code = [&](size_t i) {
    const auto byte = std::to_integer<unsigned>(pairs[i / 2]);
    return i % 2 == 0 ? byte & 15 : byte >> 4;
  };
  for (size_t j = 0; j < kBytes; ++j) {
    out[j] = static_cast<std::byte>(code(j) | code(j + kBytes) << 4);
  }
}

}  // namespace shard
