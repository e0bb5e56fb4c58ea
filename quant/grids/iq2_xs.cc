#include "quant/grids/iq2_xs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/grids/iq2_xs.cc"
#include <hwy/foreach_target.h>

#include "quant/grids/grid_decode-inl.h"
#include "quant/grids/grid_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

struct Iq2XsType {
  using Grid = Grid8;
  using Block = BlockIq2Xs;
  static constexpr GridRules kRules = kIq2XsRules;
  static const Grid& ThisGrid() { return Iq2XsGrid(); }
  static Block Pack(const GridBlock& fit) { return PackIq2Xs(fit); }
  static void Reference(Values values, Values importance, std::span<std::byte> out) {
    EncodeIq2XsRef(values, importance, out);
  }
};

void EncodeIq2XsLanes(Values values, Values importance, std::span<std::byte> out) {
  EncodeGridRun<Iq2XsType>(values, importance, out);
}

HWY_INLINE void DecodeBlock(const BlockIq2Xs& block, const Grid8Words& words, float* out) {
  const float d = HalfToFloat(block.d);
  for (size_t k = 0; k < 32; ++k) {
    const float level = static_cast<float>(HalfByteOf(block.scales, k / 2));
    const float scale = d * (0.5f + level) * 0.25f;
    const unsigned number = block.qs[k] & 511, signs = EightSigns(block.qs[k] >> 9);
    StoreEight(WithSigns(words[number], signs), scale, out + 8 * k);
  }
}

void DecodeIq2XsLanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeIq2XsRef(in, out);
  const Grid8Words& words = Iq2XsWords();
  DecodeEachBlock<BlockIq2Xs>(
      in, out, [&](const BlockIq2Xs& block, float* to) { DecodeBlock(block, words, to); });
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeIq2XsLanes);

void EncodeIq2Xs(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeIq2XsLanes)(values, importance, out);
}

HWY_EXPORT(DecodeIq2XsLanes);

void DecodeIq2Xs(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeIq2XsLanes)(blocks, out);
}

}  // namespace quant
#endif
