#include "quant/ternary/tq1_0.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/ternary/tq1_0.cc"
#include <hwy/foreach_target.h>

#include "quant/half.h"
#include "quant/ternary/ternary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// PackTrits of tq1_0.h. The run is a template argument so that compilers vectorize its loops.
template <size_t kRun>
HWY_INLINE void PackTritRun(const Levels& trits, BlockTq10& block) {
  constexpr TritRun kOne = kTritRuns[kRun];
  const uint8_t* const from = trits.data() + kOne.first;
  for (size_t l = 0; l < kOne.count; ++l) {
    unsigned number = 0;
    for (size_t k = 0; k < kTritsOfByte; ++k) {
      number = number * 3 + (k < kOne.trits ? from[l + k * kOne.count] : 0u);
    }
    block.qs[kOne.byte + l] = ByteOfTrits(number);
  }
}

void EncodeTq10Lanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeTq10Ref(values, importance, out);
  for (size_t i = 0; i < values.size() / kSuperBlock; ++i) {
    BlockTq10 block;
    Levels trits;
    block.d = ScaleToHalf(TernaryTritsOf(values.data() + i * kSuperBlock, trits));
    PackTritRun<0>(trits, block);
    PackTritRun<1>(trits, block);
    PackTritRun<2>(trits, block);
    std::memcpy(out.data() + i * sizeof(block), &block, sizeof(block));
  }
}

#if HWY_TARGET != HWY_SCALAR
// The run is a template argument so that its loops are unrolled.
template <size_t kRun>
HWY_INLINE void DecodeTritRun(const BlockTq10& block, float d, float* out) {
  constexpr TritRun kOne = kTritRuns[kRun];
  const TritFloats<std::min(kOne.count, kMaxLanes)> df;
  const auto low = hn::Set(hn::RebindToSigned<decltype(df)>(), 255);
  for (size_t l = 0; l < kOne.count; l += hn::Lanes(df)) {
    auto rest = LoadTernaryBytes(df, block.qs + kOne.byte + l);
    for (size_t k = 0; k < kOne.trits; ++k) {
      const auto digits = hn::Add(hn::Add(rest, rest), rest);
      StoreTernary(df, hn::ShiftRight<8>(digits), d, out + kOne.first + l + k * kOne.count);
      rest = hn::And(digits, low);
    }
  }
}
#endif

void DecodeTq10Lanes(std::span<const std::byte> in, std::span<float> out) {
#if HWY_TARGET == HWY_SCALAR
  DecodeTq10Ref(in, out);
#else
  for (size_t i = 0; i < in.size() / sizeof(BlockTq10); ++i) {
    BlockTq10 block;
    std::memcpy(&block, in.data() + i * sizeof(block), sizeof(block));
    const float d = HalfToFloat(block.d);
    float* const values = out.data() + i * kSuperBlock;
    DecodeTritRun<0>(block, d, values);
    DecodeTritRun<1>(block, d, values);
    DecodeTritRun<2>(block, d, values);
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeTq10Lanes);

void EncodeTq10(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeTq10Lanes)(values, importance, out);
}

HWY_EXPORT(DecodeTq10Lanes);

void DecodeTq10(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeTq10Lanes)(blocks, out);
}

}  // namespace quant
#endif
