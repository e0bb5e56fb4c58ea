#include "quant/k_quants/q6_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/k_quants/q6_k.cc"
#include <hwy/foreach_target.h>

#include "quant/k_quants/k_decode-inl.h"
#include "quant/search/search_signed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// The weight of a value is its importance; without importance it is the value's square.
void FitGroups(const LaneBlocks& blocks, SignedFits& fits) {
  HWY_ALIGN float x[kSignedGroupValues * kMaxLanes], w[kSignedGroupValues * kMaxLanes];
  M exact = AllLanes();
  for (size_t j = 0; j < kSignedGroups; ++j) {
    LoadTransposed(blocks.value, j * kSignedGroupValues, kSignedGroupValues, x);
    if (blocks.weighted()) {
      LoadTransposed(blocks.weight, j * kSignedGroupValues, kSignedGroupValues, w);
    } else {
      WeighBySquare<kSignedGroupValues>(x, w);
    }
    const SignedFit fit = FitSignedLanes<kSignedGroupValues>(x, w, kQ6KLevels);
    exact = hn::And(exact, StoreFit(fit, j, fits));
  }
  StoreMask(exact, fits.exact);
}

BlockQ6K FinishLane(const LaneBlocks& blocks, size_t lane, const SignedFits& fits) {
  BlockQ6K block{};
  // A block of zeros has no integers to choose.
  if (!RoundScalesQ6K(OfLane<kSignedGroups>(fits.scale, lane), block)) return block;
  Levels q;
  const auto scale_of = [&](size_t j) { return block.GroupScale(j); };
  RequantizeLane(blocks, lane, fits, scale_of, kQ6KLevels, q);
  PackQ6K(q, block);
  return block;
}

void EncodeLanes(const LaneBlocks& blocks, std::span<BlockQ6K> out) {
  SignedFits fits;
  FitGroups(blocks, fits);
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    if (fits.exact[lane]) {
      out[lane] = FinishLane(blocks, lane, fits);
    } else {
      EncodeByReference(blocks, lane, EncodeQ6KRef, out[lane]);
    }
  }
}

void EncodeQ6KLanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeQ6KRef(values, importance, out);
  EncodeInLanes<BlockQ6K>({values, importance, out}, LaneCount(), EncodeLanes);
}

struct PackedQ6K {
  template <size_t kFirst, class DB>
  static HWY_INLINE auto From(DB d, const uint8_t* block, size_t i) {
    const auto low = FourBitsFrom<kQ6KDistance, kFirst>(d, block + offsetof(BlockQ6K, ql), i);
    const auto high = TwoBitsFrom<kFirst>(d, block + offsetof(BlockQ6K, qh), i);
    return SignedLevels(d, hn::Or(low, hn::ShiftLeft<4>(high)), kQ6KLevels);
  }
};

HWY_INLINE void DecodeBlockQ6K(const uint8_t* block, float* out) {
  GroupScales<BlockQ6K::kGroups> scales;
  const auto* const levels = reinterpret_cast<const int8_t*>(block + offsetof(BlockQ6K, scales));
  ScaleLevels<BlockQ6K::kGroups>(levels, LoadHalf(block + offsetof(BlockQ6K, d)), scales.scale);
  DecodeGroups<PackedQ6K>(block, scales, out);
}

void DecodeQ6KLanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeQ6KRef(in, out);
  DecodeEach<BlockQ6K, DecodeBlockQ6K>(in, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeQ6KLanes);

void EncodeQ6K(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeQ6KLanes)(values, importance, out);
}

HWY_EXPORT(DecodeQ6KLanes);

void DecodeQ6K(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeQ6KLanes)(blocks, out);
}

}  // namespace quant
#endif
