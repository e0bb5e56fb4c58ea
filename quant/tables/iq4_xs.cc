#include "quant/tables/iq4_xs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/tables/iq4_xs.cc"
#include <hwy/foreach_target.h>

#include "quant/k_quants/k_decode-inl.h"
#include "quant/tables/iq4-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Fits::scale[group][lane].
struct Fits {
  HWY_ALIGN float scale[BlockIq4Xs::kGroups * kMaxLanes];
  bool exact[kMaxLanes];
};

void FitGroups(const LaneBlocks& blocks, Fits& fits) {
  HWY_ALIGN float x[kSuperBlock * kMaxLanes];
  LoadTransposed(blocks.value, 0, kSuperBlock, x);
  const V spread = Iq4SpreadOf<kSuperBlock>(x);
  M exact = AllLanes();
  for (size_t j = 0; j < BlockIq4Xs::kGroups; ++j) {
    const float* group = x + j * kGroup32 * LaneCount();
    const Iq4Fit fit = FitIq4Group(blocks, j * kGroup32, group, spread);
    hn::Store(fit.scale, D(), fits.scale + j * LaneCount());
    exact = hn::And(exact, fit.exact);
  }
  StoreMask(exact, fits.exact);
}

BlockIq4Xs FinishLane(const LaneBlocks& blocks, size_t lane, const Fits& fits) {
  BlockIq4Xs block{};
  const FloatsIq4Xs inverses =
      RoundScalesIq4Xs(OfLane<BlockIq4Xs::kGroups>(fits.scale, lane), block);
  Levels q;
  for (size_t j = 0; j < inverses.size(); ++j) {
    NearestIq4Codes(blocks.value[lane] + j * kGroup32, inverses[j], q.data() + j * kGroup32);
  }
  PackFourBits(q, kIq4XsDistance, block.qs);
  return block;
}

void EncodeLanes(const LaneBlocks& blocks, std::span<BlockIq4Xs> out) {
  Fits fits;
  FitGroups(blocks, fits);
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    if (fits.exact[lane]) {
      out[lane] = FinishLane(blocks, lane, fits);
    } else {
      EncodeByReference(blocks, lane, EncodeIq4XsRef, out[lane]);
    }
  }
}

void EncodeIq4XsLanes(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return EncodeIq4XsRef(values, importance, out);
  EncodeInLanes<BlockIq4Xs>({values, importance, out}, LaneCount(), EncodeLanes);
}

// BlockIq4Xs::GroupScale of every group.
HWY_INLINE void LoadScalesIq4Xs(const uint8_t* block, float* scale) {
  // Spreads eight integers over the bytes of a word: first over its halves, then its quarters, then
  // its bytes.
  uint64_t low = LoadNumber<uint32_t>(block + offsetof(BlockIq4Xs, scales_l));
  low = (low | low << 16) & 0x0000ffff0000ffff;
  low = (low | low << 8) & 0x00ff00ff00ff00ff;
  low = (low | low << 4) & 0x0f0f0f0f0f0f0f0f;
  uint64_t high = LoadNumber<uint16_t>(block + offsetof(BlockIq4Xs, scales_h));
  high = (high | high << 24) & 0x000000ff000000ff;
  high = (high | high << 12) & 0x000f000f000f000f;
  high = (high | high << 6) & 0x0303030303030303;
  const float d = LoadHalf(block + offsetof(BlockIq4Xs, d));
  ScaleWord(low | high << 4, d, scale, kIq4XsScaleLevels);
}

HWY_INLINE void DecodeBlockIq4Xs(const uint8_t* block, float* out) {
  HWY_ALIGN float scale[BlockIq4Xs::kGroups];
  LoadScalesIq4Xs(block, scale);
  const uint8_t* const qs = block + offsetof(BlockIq4Xs, qs);
  for (size_t j = 0; j < BlockIq4Xs::kGroups; ++j) {
    DecodeCodes32(LoadNibbles(qs + j * 16), Iq4Codes(), scale[j], out + j * kGroup32);
  }
}

void DecodeIq4XsLanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeIq4XsRef(in, out);
  DecodeEach<BlockIq4Xs, DecodeBlockIq4Xs>(in, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeIq4XsLanes);

void EncodeIq4Xs(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeIq4XsLanes)(values, importance, out);
}

HWY_EXPORT(DecodeIq4XsLanes);

void DecodeIq4Xs(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeIq4XsLanes)(blocks, out);
}

}  // namespace quant
#endif
