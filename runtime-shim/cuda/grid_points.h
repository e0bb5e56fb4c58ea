// The code books of quant/grids/points.h where kernels can read them, made from the same lists, and
// the values of their points. Each is for one file of kernels, and for tests.
#pragma once

#include "runtime-shim/cuda/blocks.h"

// A list in device memory, and a function that reads it; on the host both are ordinary.
#ifdef __CUDACC__
#define MOEPACK_POINTS static __device__ const uint16_t
#define MOEPACK_READS_POINTS __device__ __forceinline__
#else
#define MOEPACK_POINTS inline constexpr uint16_t
#define MOEPACK_READS_POINTS inline
#endif

namespace moepack::runtime::cuda {

MOEPACK_POINTS kIq1Points[] = {
#include "quant/grids/points/iq1.inc"
};
MOEPACK_POINTS kIq2XxsPoints[] = {
#include "quant/grids/points/iq2_xxs.inc"
};
MOEPACK_POINTS kIq2XsPoints[] = {
#include "quant/grids/points/iq2_xs.inc"
};
MOEPACK_POINTS kIq2SPoints[] = {
#include "quant/grids/points/iq2_s.inc"
};
MOEPACK_POINTS kIq3XxsPoints[] = {
#include "quant/grids/points/iq3_xxs.inc"
};
MOEPACK_POINTS kIq3SPoints[] = {
#include "quant/grids/points/iq3_s.inc"
};

MOEPACK_READS_POINTS uint32_t PointOf(const uint16_t* points, uint32_t number) {
  return LoadShort(reinterpret_cast<const uint8_t*>(points + number));
}

// For all these types part p is values 32p ... 32p + 31, and group g of it is eight of them.
struct PartsOf32 {
  static constexpr int kValues = 256, kParts = 8, kGroups = 4, kGroupValues = 8;
  static constexpr bool kScaled = true, kOffset = false;
  MOEPACK_DEVICE static int First(int part, int group) { return 32 * part + 8 * group; }
};

// Bytes of `values` selected by four two-bit levels of a point, from `first` on.
MOEPACK_DEVICE uint32_t BytesOfPairs(uint32_t point, int first, uint32_t values) {
  const uint32_t byte = point >> 2 * first & 0xff;
  const uint32_t halves = (byte | byte << 4) & 0x0f0f;
  return PermuteBytes(values, 0, (halves | halves << 2) & 0x3333);
}

// Bytes of `upper` and `lower` selected by the four three-bit levels of a point.
MOEPACK_DEVICE uint32_t BytesOfTriples(uint32_t point, uint32_t lower, uint32_t upper) {
  const uint32_t levels =
      (point & 7) | (point & 0x38) << 1 | (point & 0x1c0) << 2 | (point & 0xe00) << 3;
  return PermuteBytes(lower, upper, levels);
}

// Four bytes below 64 become 64 + byte or, if the bit of `signs` is 1, 64 - byte.
MOEPACK_DEVICE uint32_t SignedBytes(uint32_t bytes, uint32_t signs) {
  const uint32_t flips = SpreadBits(signs) * 127;
  return (bytes ^ flips) + 0x40404040 - flips;
}
inline constexpr float kSignedBase = kLift + 64;

// The eighth of eight signs is the parity of seven.
MOEPACK_DEVICE uint32_t EightSigns(uint32_t seven) {
  const uint32_t folded = (seven ^ seven >> 4) & 15;
  return seven | (0x6996 >> folded & 1) << 7;
}

}  // namespace moepack::runtime::cuda
