#include "quant/q3_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/q3_k.cc"
#include <hwy/foreach_target.h>

#include "quant/lane_fit-inl.h"
#include "quant/signed_fits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

constexpr size_t kCount = kSignedGroupValues;

// The search without importance, which starts from one scale and improves the integers one by one;
// the weight of a value is its square.
struct PlainGroup {
  HWY_ALIGN float x[kCount * kMaxLanes];
  HWY_ALIGN float w[kCount * kMaxLanes];
  HWY_ALIGN float wx[kCount * kMaxLanes];
  HWY_ALIGN float level[kCount * kMaxLanes];
};

HWY_INLINE LaneFit StartFrom(V inverse, PlainGroup& group) {
  const D d;
  LaneFit fit{hn::Zero(d), hn::Zero(d)};
  for (size_t i = 0; i < kCount; ++i) {
    const size_t at = i * LaneCount();
    const V x = hn::Load(d, group.x + at);
    const V w = hn::Mul(x, x), wx = hn::Mul(w, x);
    const V rounded = hn::Round(hn::Mul(inverse, x));
    const V level = hn::Min(hn::Max(rounded, Splat(-kQ3KLevels)), Splat(kQ3KLevels - 1));
    hn::Store(w, d, group.w + at);
    hn::Store(wx, d, group.wx + at);
    hn::Store(level, d, group.level + at);
    fit.Add(w, wx, level);
  }
  return fit;
}

// Where all of a lane's integers stay, its fit does not change: most vectors of a round do not wait
// for the one before. The lanes in which one moved.
HWY_INLINE M MoveLevels(LaneFit& fit, PlainGroup& group) {
  const D d;
  M moved = hn::Not(AllLanes());
  for (size_t i = 0; i < kCount; ++i) {
    const size_t at = i * LaneCount();
    const V w = hn::Load(d, group.w + at), wx = hn::Load(d, group.wx + at);
    const V old = hn::Load(d, group.level + at);
    LaneFit others = fit;
    others.Remove(w, wx, old);
    const V best = hn::Div(hn::Mul(hn::Load(d, group.x + at), others.ll), others.xl);
    const V level = ToFloat(ClampLevel(NearestIntOf(best), -kQ3KLevels, kQ3KLevels - 1));
    const M other_level = hn::And(hn::Gt(others.xl, hn::Zero(d)), hn::Ne(level, old));
    if (hn::AllFalse(d, other_level)) continue;
    others.Add(w, wx, level);
    const M better =
        hn::And(hn::And(other_level, hn::Gt(others.ll, hn::Zero(d))), others.BetterThan(fit));
    hn::Store(hn::IfThenElse(better, level, old), d, group.level + at);
    fit.Take(better, others);
    moved = hn::Or(moved, better);
  }
  return moved;
}

// No integers are kept: in the rare block with a scale that is rounded to 0, while its group is not
// zero, the reference has to find them again.
HWY_INLINE SignedFit FitPlainGroup(PlainGroup& group) {
  const D d;
  const SignedExtent extent = SignedExtentOf<kCount>(group.x);
  SignedFit best;
  best.zero = hn::Lt(hn::Abs(extent.largest), Splat(kZeroGroup));
  best.exact = hn::And(extent.no_nan, hn::Le(hn::Abs(extent.largest), Splat(0x1.fffffep127f)));
  best.used_inverse = hn::Div(Splat(-kQ3KLevels), extent.largest);
  LaneFit fit = StartFrom(best.used_inverse, group);
  for (int round = 0; round < 5; ++round) {
    if (hn::AllFalse(d, MoveLevels(fit, group))) break;
  }
  best.scale = hn::IfThenZeroElse(best.zero, fit.Scale());
  return best;
}

void FitPlain(const LaneBlocks& blocks, SignedFits& fits, BlockQ3K* out) {
  PlainGroup group;
  M exact = AllLanes();
  for (size_t j = 0; j < kSignedGroups; ++j) {
    LoadTransposed(blocks.value, j * kCount, kCount, group.x);
    exact = hn::And(exact, StoreFit(FitPlainGroup(group), j, fits));
  }
  StoreMask(exact, fits.exact);
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    FloatsQ3K scales;
    for (size_t j = 0; j < kSignedGroups; ++j) scales[j] = fits.scale[j * LaneCount() + lane];
    RoundQ3KToLargest(scales, out[lane]);
    for (size_t j = 0; j < kSignedGroups; ++j) {
      const bool zero = fits.zero[j * LaneCount() + lane] != 0;
      fits.exact[lane] &= zero || out[lane].GroupScale(j) != 0;
    }
  }
}

// The integers of the group scales of a lane: those of scale * inverse.
LevelsQ3K LevelsOfScales(const SignedFits& fits, size_t lane, float inverse) {
  LevelsQ3K levels;
  for (size_t j = 0; j < kSignedGroups; ++j) {
    const float scaled = inverse * fits.scale[j * LaneCount() + lane];
    const int level = NearestLevel(scaled, -kQ3KScaleLevels, kQ3KScaleLevels - 1);
    levels[j] = static_cast<uint8_t>(kQ3KScaleLevels + level);
  }
  return levels;
}

void FitScales(const LaneBlocks& blocks, const float* weight_sums, SignedFits& fits,
               BlockQ3K* out) {
  const D d;
  const SignedFit fit = FitSignedLanes<kSignedGroups>(fits.scale, weight_sums, kQ3KScaleLevels);
  HWY_ALIGN float scale[kMaxLanes], inverse[kMaxLanes], zero[kMaxLanes];
  bool exact[kMaxLanes];
  hn::Store(fit.scale, d, scale);
  hn::Store(fit.used_inverse, d, inverse);
  hn::Store(hn::IfThenElseZero(fit.zero, Splat(1.0f)), d, zero);
  StoreMask(fit.exact, exact);
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    fits.exact[lane] &= exact[lane];
    LevelsQ3K levels{};
    if (zero[lane] == 0) levels = LevelsOfScales(fits, lane, inverse[lane]);
    SetScalesQ3K(scale[lane], levels, out[lane]);
  }
}

void FitWithImportance(const LaneBlocks& blocks, SignedFits& fits, BlockQ3K* out) {
  HWY_ALIGN float x[kSuperBlock * kMaxLanes], w[kCount * kMaxLanes];
  HWY_ALIGN float weight_sums[kSignedGroups * kMaxLanes];
  LoadTransposed(blocks.value, 0, kSuperBlock, x);
  const V spread = hn::Div(hn::Mul(Splat(2.0f), SumOfSquares<kSuperBlock>(x)),
                           Splat(static_cast<float>(kSuperBlock)));
  M exact = AllLanes();
  for (size_t j = 0; j < kSignedGroups; ++j) {
    const float* group = x + j * kCount * LaneCount();
    LoadTransposed(blocks.weight, j * kCount, kCount, w);
    hn::Store(WeighByImportance<kCount>(group, spread, w), D(), weight_sums + j * LaneCount());
    const SignedFit fit = FitSignedLanes<kCount>(group, w, kQ3KLevels);
    exact = hn::And(exact, StoreFit(fit, j, fits));
  }
  StoreMask(exact, fits.exact);
  FitScales(blocks, weight_sums, fits, out);
}

void EncodeLanes(const LaneBlocks& blocks, std::span<BlockQ3K> out) {
  SignedFits fits;
  if (blocks.weighted()) {
    FitWithImportance(blocks, fits, out.data());
  } else {
    FitPlain(blocks, fits, out.data());
  }
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    if (!fits.exact[lane]) {
      EncodeByReference(blocks, lane, EncodeQ3KRef, out[lane]);
      continue;
    }
    Levels q;
    const auto scale_of = [&](size_t j) { return out[lane].GroupScale(j); };
    RequantizeLane(blocks, lane, fits, scale_of, kQ3KLevels, q);
    PackQ3K(q, out[lane]);
  }
}

void EncodeQ3KLanes(Values values, Values importance, std::span<std::byte> out) {
  EncodeInLanes<BlockQ3K>({values, importance, out}, LaneCount(), EncodeQ3KRef, EncodeLanes);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quant {

HWY_EXPORT(EncodeQ3KLanes);

void EncodeQ3K(Values values, Values importance, std::span<std::byte> out) {
  HWY_DYNAMIC_DISPATCH(EncodeQ3KLanes)(values, importance, out);
}

}  // namespace quant
#endif
