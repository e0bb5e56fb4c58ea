#include "quant/tables/iq4_xs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/tables/iq4_xs.cc"
#include <hwy/foreach_target.h>

#include "quant/k_quants/k_bits.h"
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

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeIq4XsLanes);

void EncodeIq4Xs(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeIq4XsLanes)(values, importance, out);
}

}  // namespace quant
#endif
