#include "quant/grids/iq2_s.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/grids/iq2_s.cc"
#include <hwy/foreach_target.h>

#include "quant/grids/grid_decode-inl.h"
#include "quant/grids/grid_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

struct Iq2SType {
  using Grid = Grid8;
  using Block = BlockIq2S;
  static constexpr GridRules kRules = kIq2SRules;
  static const Grid& ThisGrid() { return Iq2SGrid(); }
  static Block Pack(const GridBlock& fit) { return PackIq2S(fit); }
  static void Reference(Values values, Values importance, std::span<std::byte> out) {
    EncodeIq2SRef(values, importance, out);
  }
};

void EncodeIq2SLanes(Values values, Values importance, std::span<std::byte> out) {
  EncodeGridRun<Iq2SType>(values, importance, out);
}

HWY_INLINE void DecodeBlock(const BlockIq2S& block, const Grid8Words& words, float* out) {
  const float d = HalfToFloat(block.d);
  for (size_t k = 0; k < 32; ++k) {
    const float level = static_cast<float>(HalfByteOf(block.scales, k / 2));
    const float scale = d * (0.5f + level) * 0.25f;
    const unsigned number = block.qs[k] | (block.qh[k / 4] >> k % 4 * 2 & 3u) << 8;
    StoreEight(WithSigns(words[number], block.signs[k]), scale, out + 8 * k);
  }
}

void DecodeIq2SLanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeIq2SRef(in, out);
  const Grid8Words& words = Iq2SWords();
  DecodeEachBlock<BlockIq2S>(
      in, out, [&](const BlockIq2S& block, float* to) { DecodeBlock(block, words, to); });
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeIq2SLanes);

void EncodeIq2S(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeIq2SLanes)(values, importance, out);
}

HWY_EXPORT(DecodeIq2SLanes);

void DecodeIq2S(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeIq2SLanes)(blocks, out);
}

}  // namespace quant
#endif
