#include "quant/grids/iq3_s.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/grids/iq3_s.cc"
#include <hwy/foreach_target.h>

#include "quant/grids/grid_decode-inl.h"
#include "quant/grids/grid_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

struct Iq3SType {
  using Grid = Grid4;
  using Block = BlockIq3S;
  static constexpr GridRules kRules = kIq3SRules;
  static const Grid& ThisGrid() { return Iq3SGrid(); }
  static Block Pack(const GridBlock& fit) { return PackIq3S(fit); }
  static void Reference(Values values, Values importance, std::span<std::byte> out) {
    EncodeIq3SRef(values, importance, out);
  }
};

void EncodeIq3SLanes(Values values, Values importance, std::span<std::byte> out) {
  EncodeGridRun<Iq3SType>(values, importance, out);
}

HWY_INLINE void DecodeBlock(const BlockIq3S& block, const Grid4Words& words, float* out) {
  const float d = HalfToFloat(block.d);
  for (size_t k = 0; k < 32; ++k) {
    const float scale = d * static_cast<float>(1 + 2 * HalfByteOf(block.scales, k / 4));
    const unsigned high = block.qh[k / 4] >> k % 4 * 2;
    const unsigned first = block.qs[2 * k] | (high & 1) << 8;
    const unsigned second = block.qs[2 * k + 1] | (high & 2) << 7;
    StoreEight(WithSigns(TwoPoints(words, first, second), block.signs[k]), scale, out + 8 * k);
  }
}

void DecodeIq3SLanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeIq3SRef(in, out);
  const Grid4Words& words = Iq3SWords();
  DecodeEachBlock<BlockIq3S>(
      in, out, [&](const BlockIq3S& block, float* to) { DecodeBlock(block, words, to); });
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeIq3SLanes);

void EncodeIq3S(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeIq3SLanes)(values, importance, out);
}

HWY_EXPORT(DecodeIq3SLanes);

void DecodeIq3S(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeIq3SLanes)(blocks, out);
}

}  // namespace quant
#endif
