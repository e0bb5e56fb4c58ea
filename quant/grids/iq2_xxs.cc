#include "quant/grids/iq2_xxs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/grids/iq2_xxs.cc"
#include <hwy/foreach_target.h>

#include "quant/grids/grid_decode-inl.h"
#include "quant/grids/grid_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

struct Iq2XxsType {
  using Grid = Grid8;
  using Block = BlockIq2Xxs;
  static constexpr GridRules kRules = kIq2XxsRules;
  static const Grid& ThisGrid() { return Iq2XxsGrid(); }
  static Block Pack(const GridBlock& fit) { return PackIq2Xxs(fit); }
  static void Reference(Values values, Values importance, std::span<std::byte> out) {
    EncodeIq2XxsRef(values, importance, out);
  }
};

void EncodeIq2XxsLanes(Values values, Values importance, std::span<std::byte> out) {
  EncodeGridRun<Iq2XxsType>(values, importance, out);
}

HWY_INLINE void DecodeBlock(const BlockIq2Xxs& block, const Grid8Words& words, float* out) {
  const float d = HalfToFloat(block.d);
  for (size_t j = 0; j < 8; ++j) {
    const uint8_t* const numbers = block.qs + 8 * j;
    const uint32_t word = SignWord::Load(numbers + 4);
    const float scale = d * (0.5f + static_cast<float>(SignWord::Scale(word))) * 0.25f;
    for (size_t k = 0; k < 4; ++k) {
      StoreEight(WithSigns(words[numbers[k]], SignWord::Signs(word, k)), scale,
                 out + 32 * j + 8 * k);
    }
  }
}

void DecodeIq2XxsLanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeIq2XxsRef(in, out);
  const Grid8Words& words = Iq2XxsWords();
  DecodeEachBlock<BlockIq2Xxs>(
      in, out, [&](const BlockIq2Xxs& block, float* to) { DecodeBlock(block, words, to); });
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeIq2XxsLanes);

void EncodeIq2Xxs(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeIq2XxsLanes)(values, importance, out);
}

HWY_EXPORT(DecodeIq2XxsLanes);

void DecodeIq2Xxs(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeIq2XxsLanes)(blocks, out);
}

}  // namespace quant
#endif
