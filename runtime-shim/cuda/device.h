// The operations that the decoders of blocks are written with: a few operations on words that
// compile for a GPU and, giving the same bits, for the host.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#define MOEPACK_DEVICE __host__ __device__ __forceinline__
#else
#define MOEPACK_DEVICE inline
#endif
// Arrays indexed by a loop counter only stay in registers if the loop is unrolled.
#ifdef __CUDA_ARCH__
#define MOEPACK_UNROLL _Pragma("unroll")
#else
#define MOEPACK_UNROLL
#endif

#include "quant/half.h"

namespace moepack::runtime::cuda {

// How many bytes every buffer has after its end: loads of whole words may reach past a matrix.
inline constexpr uint32_t kPadding = 16;

MOEPACK_DEVICE float FloatOfBits(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

MOEPACK_DEVICE float FloatOfHalf(uint32_t half) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(static_cast<unsigned short>(half)));
#else
  return quant::HalfToFloat(static_cast<uint16_t>(half));
#endif
}

// Byte k of the result is the byte of (high, low) that bits 4k ... 4k + 2 of the selector name.
// Bits 4k + 3 must be 0.
MOEPACK_DEVICE uint32_t PermuteBytes(uint32_t low, uint32_t high, uint32_t selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, selector);
#else
  const uint64_t bytes = uint64_t{high} << 32 | low;
  uint32_t result = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t index = selector >> 4 * k & 7;
    result |= static_cast<uint32_t>(bytes >> 8 * index & 0xff) << 8 * k;
  }
  return result;
#endif
}

MOEPACK_DEVICE uint32_t LoadByte(const uint8_t* from) {
#ifdef __CUDA_ARCH__
  return __ldg(from);
#else
  return *from;
#endif
}

// `from` is even.
MOEPACK_DEVICE uint32_t LoadShort(const uint8_t* from) {
#ifdef __CUDA_ARCH__
  return __ldg(reinterpret_cast<const unsigned short*>(from));
#else
  uint16_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
#endif
}

#ifdef __CUDA_ARCH__
// `from` is a multiple of kAlign: wide loads or, for an odd address, the surrounding words shifted
// into place, one more than requested.
template <uint32_t kAlign, int kCount>
__device__ __forceinline__ void LoadWordsOnDevice(const uint8_t* from, uint32_t (&words)[kCount]) {
  if constexpr (kAlign % 16 == 0 && kCount % 4 == 0) {
    MOEPACK_UNROLL
    for (int i = 0; i < kCount; i += 4) {
      const uint4 four = __ldg(reinterpret_cast<const uint4*>(from) + i / 4);
      words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
    }
  } else if constexpr (kAlign % 8 == 0 && kCount % 2 == 0) {
    MOEPACK_UNROLL
    for (int i = 0; i < kCount; i += 2) {
      const uint2 two = __ldg(reinterpret_cast<const uint2*>(from) + i / 2);
      words[i] = two.x, words[i + 1] = two.y;
    }
  } else if constexpr (kAlign % 4 == 0) {
    MOEPACK_UNROLL
    for (int i = 0; i < kCount; ++i) words[i] = __ldg(reinterpret_cast<const uint32_t*>(from) + i);
  } else {
    const uint32_t odd = reinterpret_cast<uintptr_t>(from) & 3;
    const uint32_t* const aligned = reinterpret_cast<const uint32_t*>(from - odd);
    uint32_t low = __ldg(aligned);
    MOEPACK_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const uint32_t high = __ldg(aligned + i + 1);
      words[i] = __funnelshift_r(low, high, 8 * odd);
      low = high;
    }
  }
}
#endif

template <uint32_t kAlign, int kCount>
MOEPACK_DEVICE void LoadWords(const uint8_t* from, uint32_t (&words)[kCount]) {
#ifdef __CUDA_ARCH__
  LoadWordsOnDevice<kAlign>(from, words);
#else
  std::memcpy(words, from, sizeof(words));
#endif
}

// The bytes of a word as floats, without the slow conversion of integers.
//
// Puts byte k, which is below 128, in the upper mantissa bits of a float between 128 and 256: byte
// + 128.
inline constexpr float kLift = 128;
MOEPACK_DEVICE float LiftedByte(uint32_t word, uint32_t k) {
  return FloatOfBits(PermuteBytes(word, 0x43000000, 0x7044 | k << 8));
}
// Puts byte k in the lowest bits of 2^23 + byte and subtracts 2^23 + 128: byte - 128.
MOEPACK_DEVICE float CenteredByte(uint32_t word, uint32_t k) {
  return FloatOfBits(PermuteBytes(word, 0x4b000000, 0x7440 | k)) - 8388736.0f;
}

}  // namespace moepack::runtime::cuda
