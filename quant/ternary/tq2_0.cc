#include "quant/ternary/tq2_0.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/ternary/tq2_0.cc"
#include <hwy/foreach_target.h>

#include "quant/half.h"
#include "quant/ternary/ternary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

void EncodeTq20Lanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeTq20Ref(values, importance, out);
  for (size_t i = 0; i < values.size() / kSuperBlock; ++i) {
    BlockTq20 block;
    Levels trits;
    block.d = ScaleToHalf(TernaryTritsOf(values.data() + i * kSuperBlock, trits));
    PackTwoBits(trits, 0, block.qs);
    std::memcpy(out.data() + i * sizeof(block), &block, sizeof(block));
  }
}

#if HWY_TARGET != HWY_SCALAR
// Decodes 128 values from 32 bytes.
HWY_INLINE void DecodeTq20Run(const uint8_t* qs, float d, float* out) {
  const TritFloats<kMaxLanes> df;
  const auto mask = hn::Set(hn::RebindToSigned<decltype(df)>(), 3);
  for (size_t l = 0; l < 32; l += hn::Lanes(df)) {
    const auto four = LoadTernaryBytes(df, qs + l);
    StoreTernary(df, hn::And(four, mask), d, out + l);
    StoreTernary(df, hn::And(hn::ShiftRight<2>(four), mask), d, out + l + 32);
    StoreTernary(df, hn::And(hn::ShiftRight<4>(four), mask), d, out + l + 64);
    StoreTernary(df, hn::ShiftRight<6>(four), d, out + l + 96);
  }
}
#endif

void DecodeTq20Lanes(std::span<const std::byte> in, std::span<float> out) {
#if HWY_TARGET == HWY_SCALAR
  DecodeTq20Ref(in, out);
#else
  for (size_t i = 0; i < in.size() / sizeof(BlockTq20); ++i) {
    BlockTq20 block;
    std::memcpy(&block, in.data() + i * sizeof(block), sizeof(block));
    const float d = HalfToFloat(block.d);
    DecodeTq20Run(block.qs, d, out.data() + i * kSuperBlock);
    DecodeTq20Run(block.qs + 32, d, out.data() + i * kSuperBlock + 128);
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeTq20Lanes);

void EncodeTq20(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeTq20Lanes)(values, importance, out);
}

HWY_EXPORT(DecodeTq20Lanes);

void DecodeTq20(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeTq20Lanes)(blocks, out);
}

}  // namespace quant
#endif
