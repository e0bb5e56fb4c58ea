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
  HWY_ALIGN float xl[kCount * kMaxLanes];  // what each value adds to the sums of the fit
  HWY_ALIGN float ll[kCount * kMaxLanes];
};

HWY_INLINE LaneFit PartOf(V w, V wx, V level) {
  return {hn::Mul(wx, level), hn::Mul(hn::Mul(w, level), level)};
}

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
    const LaneFit part = PartOf(w, wx, level);
    hn::Store(level, d, group.level + at);
    hn::Store(part.xl, d, group.xl + at);
    hn::Store(part.ll, d, group.ll + at);
    fit.xl = hn::Add(fit.xl, part.xl);
    fit.ll = hn::Add(fit.ll, part.ll);
  }
  return fit;
}

// Lanes whose integer surely stays: where the sum of the others is not above 0 the search moves
// nothing, and elsewhere the best integer is the one they have if the best number lies within 0.499
// of it. Products tell that without a quotient; their rounding errors, 2^-20 at most for sums in
// this range, cannot make up for the rest.
HWY_INLINE M Stays(const LaneFit& others, V x, V level) {
  const V off = hn::Abs(hn::Sub(hn::Mul(x, others.ll), hn::Mul(level, others.xl)));
  const M near = hn::Le(off, hn::Mul(others.xl, Splat(0.499f)));
  const M sure = hn::And(near, hn::Gt(others.xl, Splat(1e-30f)));
  return hn::Or(sure, hn::Not(hn::Gt(others.xl, hn::Zero(D()))));
}

// Moves value i of a group to its best integer where that helps; the lanes in which it moved.
// `others` is the fit without the value.
HWY_INLINE M MoveLevel(size_t i, LaneFit others, LaneFit& fit, PlainGroup& group) {
  const D d;
  const size_t at = i * LaneCount();
  const V old = hn::Load(d, group.level + at);
  const V best = hn::Div(hn::Mul(hn::Load(d, group.x + at), others.ll), others.xl);
  const V level = ToFloat(ClampLevel(NearestIntOf(best), -kQ3KLevels, kQ3KLevels - 1));
  const M other_level = hn::And(hn::Gt(others.xl, hn::Zero(d)), hn::Ne(level, old));
  const LaneFit part = PartOf(hn::Load(d, group.w + at), hn::Load(d, group.wx + at), level);
  others.xl = hn::Add(others.xl, part.xl);
  others.ll = hn::Add(others.ll, part.ll);
  const M better =
      hn::And(hn::And(other_level, hn::Gt(others.ll, hn::Zero(d))), others.BetterThan(fit));
  hn::Store(hn::IfThenElse(better, level, old), d, group.level + at);
  hn::Store(hn::IfThenElse(better, part.xl, hn::Load(d, group.xl + at)), d, group.xl + at);
  hn::Store(hn::IfThenElse(better, part.ll, hn::Load(d, group.ll + at)), d, group.ll + at);
  fit.Take(better, others);
  return better;
}

// At most five rounds over the values. Ends when no value has moved since all were last looked at:
// the rest of the rounds would find the same.
HWY_INLINE LaneFit MoveLevels(LaneFit now, PlainGroup& group) {
  const D d;
  size_t still = 0;
  for (int round = 0; round < 5; ++round) {
    for (size_t i = 0; i < kCount; ++i) {
      const size_t at = i * LaneCount();
      const LaneFit others{hn::Sub(now.xl, hn::Load(d, group.xl + at)),
                           hn::Sub(now.ll, hn::Load(d, group.ll + at))};
      const M stays = Stays(others, hn::Load(d, group.x + at), hn::Load(d, group.level + at));
      ++still;
      if (HWY_UNLIKELY(!hn::AllTrue(d, stays))) {
        if (!hn::AllFalse(d, MoveLevel(i, others, now, group))) still = 0;
      }
      if (still == kCount) return now;
    }
  }
  return now;
}

// No integers are kept: in the rare block with a scale that is rounded to 0, while its group is not
// zero, the reference has to find them again.
HWY_INLINE SignedFit FitPlainGroup(PlainGroup& group) {
  const SignedExtent extent = SignedExtentOf<kCount>(group.x);
  SignedFit best;
  best.zero = hn::Lt(hn::Abs(extent.largest), Splat(kZeroGroup));
  best.exact = IsFinite(extent);
  best.used_inverse = hn::Div(Splat(-kQ3KLevels), extent.largest);
  const LaneFit fit = MoveLevels(StartFrom(best.used_inverse, group), group);
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
    RoundQ3KToLargest(OfLane<kSignedGroups>(fits.scale, lane), out[lane]);
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
  if (!kHasVectors) return EncodeQ3KRef(values, importance, out);
  EncodeInLanes<BlockQ3K>({values, importance, out}, LaneCount(), EncodeLanes);
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
