#include "quant/grids/iq3_xxs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/grids/iq3_xxs.cc"
#include <hwy/foreach_target.h>

#include "quant/grids/grid_decode-inl.h"
#include "quant/grids/grid_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

struct Iq3XxsType {
  using Grid = Grid4;
  using Block = BlockIq3Xxs;
  static constexpr GridRules kRules = kIq3XxsRules;
  static const Grid& ThisGrid() { return Iq3XxsGrid(); }
  static Block Pack(const GridBlock& fit) { return PackIq3Xxs(fit); }
  static void Reference(Values values, Values importance, std::span<std::byte> out) {
    EncodeIq3XxsRef(values, importance, out);
  }
};

void EncodeIq3XxsLanes(Values values, Values importance, std::span<std::byte> out) {
  EncodeGridRun<Iq3XxsType>(values, importance, out);
}

HWY_INLINE void DecodeBlock(const BlockIq3Xxs& block, const Grid4Words& words, float* out) {
  const float d = HalfToFloat(block.d);
  for (size_t j = 0; j < 8; ++j) {
    const uint32_t word = SignWord::Load(block.words + 4 * j);
    const float scale = d * (0.5f + static_cast<float>(SignWord::Scale(word))) * 0.5f;
    for (size_t k = 0; k < 4; ++k) {
      const uint8_t* const numbers = block.qs + 8 * j + 2 * k;
      StoreEight(WithSigns(TwoPoints(words, numbers[0], numbers[1]), SignWord::Signs(word, k)),
                 scale, out + 32 * j + 8 * k);
    }
  }
}

void DecodeIq3XxsLanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeIq3XxsRef(in, out);
  const Grid4Words& words = Iq3XxsWords();
  DecodeEachBlock<BlockIq3Xxs>(
      in, out, [&](const BlockIq3Xxs& block, float* to) { DecodeBlock(block, words, to); });
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeIq3XxsLanes);

void EncodeIq3Xxs(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeIq3XxsLanes)(values, importance, out);
}

HWY_EXPORT(DecodeIq3XxsLanes);

void DecodeIq3Xxs(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeIq3XxsLanes)(blocks, out);
}

}  // namespace quant
#endif
