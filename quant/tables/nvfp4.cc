#include "quant/tables/nvfp4.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/tables/nvfp4.cc"
#include <hwy/foreach_target.h>

#include <array>
#include <cstring>

#include "quant/tables/fp4-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

constexpr size_t kNvfp4Group = BlockNvfp4::kGroupValues;

// Returns false where values are so far beyond the largest scale that differences lose the codes.
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

#if HWY_TARGET != HWY_SCALAR
HWY_INLINE void DecodeNvfp4Group(const int8_t* codes, uint8_t d, float* out) {
  const V scale = Splat(HalfOfUnsignedE4M3(d));
  for (size_t j = 0; j < kNvfp4Group; j += LaneCount()) {
    hn::StoreU(hn::Mul(LoadBytes(codes + j), scale), D(), out + j);
  }
}

// Sixteen bytes are two groups: the low halves of the first eight are the first half of a group.
HWY_INLINE void DecodeNvfp4Pair(const uint8_t* qs, const uint8_t* d, float* out) {
  const hn::Full128<int8_t> bytes;
  const hn::Full128<uint64_t> halves;
  const NibbleHalves nibbles = LoadNibbles(qs);
  const auto low = hn::BitCast(halves, Fp4CodesOf(nibbles.low));
  const auto high = hn::BitCast(halves, Fp4CodesOf(nibbles.high));
  HWY_ALIGN int8_t codes[2 * kNvfp4Group];
  hn::Store(hn::BitCast(bytes, hn::InterleaveLower(halves, low, high)), bytes, codes);
  hn::Store(hn::BitCast(bytes, hn::InterleaveUpper(halves, low, high)), bytes, codes + kNvfp4Group);
  DecodeNvfp4Group(codes, d[0], out);
  DecodeNvfp4Group(codes + kNvfp4Group, d[1], out + kNvfp4Group);
}
#endif

void DecodeNvfp4Lanes(std::span<const std::byte> in, std::span<float> out) {
#if HWY_TARGET == HWY_SCALAR
  DecodeNvfp4Ref(in, out);
#else
  for (size_t i = 0; i < in.size() / sizeof(BlockNvfp4); ++i) {
    BlockNvfp4 block;
    std::memcpy(&block, in.data() + i * sizeof(block), sizeof(block));
    float* const values = out.data() + i * BlockNvfp4::kValues;
    DecodeNvfp4Pair(block.qs, block.d, values);
    DecodeNvfp4Pair(block.qs + 16, block.d + 2, values + 2 * kNvfp4Group);
  }
#endif
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
