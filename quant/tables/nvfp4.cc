#include "quant/tables/nvfp4.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/tables/nvfp4.cc"
#include <hwy/foreach_target.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "quant/decode-inl.h"
#include "quant/half.h"
#include "quant/tables/fp4-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

constexpr size_t kNvfp4Group = BlockNvfp4::kGroupValues;

// Returns false if values are so far beyond the largest scale that differences can no longer tell
// codes apart.
HWY_INLINE bool EncodeNvfp4Block(const float* x, BlockNvfp4& block) {
  for (size_t g = 0; g < BlockNvfp4::kGroups; ++g) {
    const float* const group = x + g * kNvfp4Group;
    const float largest = LargestMagnitudeOf<kNvfp4Group>(group);
    if (largest > 0x1p20f) return false;
    block.d[g] = Nvfp4ScaleFor(largest);
    const float scale = HalfOfUnsignedE4M3(block.d[g]);
    if (scale == 0) {
      std::memset(block.qs + g * kNvfp4Group / 2, 0, kNvfp4Group / 2);
      continue;
    }
    std::array<uint8_t, kNvfp4Group> q;
    for (size_t i = 0; i < kNvfp4Group; i += LaneCount()) {
      StoreLevels(NearestFp4CodeOf(hn::LoadU(D(), group + i), scale), q.data() + i);
    }
    for (size_t j = 0; j < kNvfp4Group / 2; ++j) {
      const unsigned high = q[j + kNvfp4Group / 2];
      block.qs[g * kNvfp4Group / 2 + j] = static_cast<uint8_t>(q[j] | high << 4);
    }
  }
  return true;
}

void EncodeNvfp4Lanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeNvfp4Ref(values, importance, out);
  EncodeBlocksOr<BlockNvfp4>(EncodeNvfp4Ref, values, out, EncodeNvfp4Block);
}

// Sixteen bytes are two groups: the low halves of the first eight are the first half of a group.
HWY_INLINE void DecodeNvfp4Pair(const uint8_t* qs, const uint8_t* d, float* out) {
  constexpr size_t kHalf = kNvfp4Group / 2;
  const NibbleHalves nibbles = LoadNibbles(qs);
  HWY_ALIGN int8_t low[kNvfp4Group], high[kNvfp4Group], codes[2 * kNvfp4Group];
  hn::Store(Fp4CodesOf(nibbles.low), DCodes(), low);
  hn::Store(Fp4CodesOf(nibbles.high), DCodes(), high);
  for (size_t half = 0; half < 2; ++half) {
    std::memcpy(codes + half * kNvfp4Group, low + half * kHalf, kHalf);
    std::memcpy(codes + half * kNvfp4Group + kHalf, high + half * kHalf, kHalf);
  }
  for (size_t group = 0; group < 2; ++group) {
    const Scaled value{Splat(HalfOfUnsignedE4M3(d[group]))};
    const auto of_group = hn::Load(DCodes(), codes + group * kNvfp4Group);
    DecodeBytes(DCodes(), of_group, value, out + group * kNvfp4Group);
  }
}

HWY_INLINE void DecodeBlockNvfp4(const uint8_t* block, float* out) {
  const uint8_t* const qs = block + offsetof(BlockNvfp4, qs);
  const uint8_t* const d = block + offsetof(BlockNvfp4, d);
  DecodeNvfp4Pair(qs, d, out);
  DecodeNvfp4Pair(qs + kNvfp4Group, d + 2, out + 2 * kNvfp4Group);
}

void DecodeNvfp4Lanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeNvfp4Ref(in, out);
  DecodeEach<BlockNvfp4, DecodeBlockNvfp4>(in, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeNvfp4Lanes);

void EncodeNvfp4(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeNvfp4Lanes)(values, importance, out);
}

HWY_EXPORT(DecodeNvfp4Lanes);

void DecodeNvfp4(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeNvfp4Lanes)(blocks, out);
}

}  // namespace quant
#endif
