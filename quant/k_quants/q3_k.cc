#include "quant/k_quants/q3_k.h"

#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/k_quants/q3_k.cc"
#include <hwy/foreach_target.h>

#include "quant/k_quants/k_decode-inl.h"
#include "quant/search/search_positive-inl.h"
#include "quant/search/search_signed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// The moves of q3_K without importance in one group. Here the lanes hold neighbouring values,
// because a move of each of them is tried with the same sums.

inline constexpr size_t kMovedValues = 16;  // of a group
inline constexpr size_t kMoveParts = kMovedValues / hn::MaxLanes(D());
inline constexpr size_t kMostTried = 5 * kMovedValues;  // five rounds

// Returns what a value with this weight and integer adds to the sums.
HWY_INLINE LaneFit PartOf(V w, V wx, V level) {
  return {hn::Mul(wx, level), hn::Mul(hn::Mul(w, level), level)};
}

HWY_INLINE V StartLevel(V inverse, V x) {
  const V rounded = hn::Round(hn::Mul(inverse, x));
  return hn::Min(hn::Max(rounded, Splat(-kQ3KLevels)), Splat(kQ3KLevels - 1));
}

// As many values of the group as a vector holds.
struct MovedValues {
  V x, w, wx, level;
  LaneFit part;
};

// For each of these values: its best integer given all the others, the sums with it, and whether
// they are better.
struct TriedMoves {
  V level;
  LaneFit part, fit;
  M better;
};

HWY_INLINE MovedValues StartOf(const float* values, float inverse) {
  MovedValues out;
  out.x = hn::LoadU(D(), values);
  out.w = hn::Mul(out.x, out.x);
  out.wx = hn::Mul(out.w, out.x);
  out.level = StartLevel(Splat(inverse), out.x);
  out.part = PartOf(out.w, out.wx, out.level);
  return out;
}

HWY_INLINE TriedMoves TryMoves(const MovedValues& values, const LaneFit& now) {
  const D d;
  TriedMoves out;
  out.fit = {hn::Sub(now.xl, values.part.xl), hn::Sub(now.ll, values.part.ll)};
  const V best = hn::Div(hn::Mul(values.x, out.fit.ll), out.fit.xl);
  out.level = ToFloat(ClampLevel(NearestIntOf(best), -kQ3KLevels, kQ3KLevels - 1));
  out.part = PartOf(values.w, values.wx, out.level);
  const M other = hn::And(hn::Gt(out.fit.xl, hn::Zero(d)), hn::Ne(out.level, values.level));
  out.fit.xl = hn::Add(out.fit.xl, out.part.xl);
  out.fit.ll = hn::Add(out.fit.ll, out.part.ll);
  const M possible = hn::And(other, hn::Gt(out.fit.ll, hn::Zero(d)));
  out.better = hn::And(possible, out.fit.BetterThan(now));
  return out;
}

HWY_INLINE unsigned BitsOf(M mask) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(D(), mask, bytes);
  return (bytes[0] | unsigned{bytes[1]} << 8) & ((1u << LaneCount()) - 1);
}

// The sums of one group.
struct GroupSums {
  float xl, ll;
};

// Moves one value, number `index` of the group, to its integer in `moves`, and returns the new
// sums.
HWY_INLINE GroupSums Move(size_t index, const TriedMoves (&moves)[kMoveParts],
                          MovedValues (&group)[kMoveParts]) {
  const D d;
  const DI di;
  HWY_ALIGN float xl[kMovedValues], ll[kMovedValues];
  for (size_t k = 0; k < kMoveParts; ++k) {
    const auto first = static_cast<int32_t>(k * LaneCount());
    const auto here = hn::Eq(hn::Iota(di, first), hn::Set(di, static_cast<int32_t>(index)));
    const M moved = hn::RebindMask(d, here);
    hn::Store(moves[k].fit.xl, d, xl + k * LaneCount());
    hn::Store(moves[k].fit.ll, d, ll + k * LaneCount());
    group[k].level = hn::IfThenElse(moved, moves[k].level, group[k].level);
    group[k].part.Take(moved, moves[k].part);
  }
  return {xl[index], ll[index]};
}

// Returns the sums of a group after all its moves, starting from those of its first integers. The
// reference tries one value after another for at most five rounds, and stops after a round without
// a move. Until a value moves, the sums stay the same, so all values can be tried at once. The next
// to move is the first improvement after the value that moved last.
HWY_INLINE GroupSums MoveLevels(const float* values, float inverse, GroupSums now) {
  MovedValues group[kMoveParts];
  for (size_t k = 0; k < kMoveParts; ++k) group[k] = StartOf(values + k * LaneCount(), inverse);
  for (size_t tried = 0;; ++tried) {
    TriedMoves moves[kMoveParts];
    unsigned better = 0;
    for (size_t k = 0; k < kMoveParts; ++k) {
      moves[k] = TryMoves(group[k], {Splat(now.xl), Splat(now.ll)});
      better |= BitsOf(moves[k].better) << k * LaneCount();
    }
    const unsigned next = (better | better << kMovedValues) >> tried % kMovedValues & 0xffff;
    if (next == 0) return now;
    tried += static_cast<size_t>(std::countr_zero(next));
    if (tried >= kMostTried) return now;
    now = Move(tried % kMovedValues, moves, group);
  }
}

constexpr size_t kCount = kSignedGroupValues;

// The search without importance, which starts from one scale and improves the integers one by one;
// the weight of a value is its square.
struct PlainGroup {
  HWY_ALIGN float x[kCount * kMaxLanes];
  HWY_ALIGN float level[kCount * kMaxLanes];
  HWY_ALIGN float xl[kCount * kMaxLanes];  // what each value adds to the sums of the fit
  HWY_ALIGN float ll[kCount * kMaxLanes];
};

HWY_INLINE LaneFit StartFrom(V inverse, PlainGroup& group) {
  const D d;
  LaneFit fit{hn::Zero(d), hn::Zero(d)};
  for (size_t i = 0; i < kCount; ++i) {
    const size_t at = i * LaneCount();
    const V x = hn::Load(d, group.x + at);
    const V w = hn::Mul(x, x), level = StartLevel(inverse, x);
    const LaneFit part = PartOf(w, hn::Mul(w, x), level);
    hn::Store(level, d, group.level + at);
    hn::Store(part.xl, d, group.xl + at);
    hn::Store(part.ll, d, group.ll + at);
    fit.xl = hn::Add(fit.xl, part.xl);
    fit.ll = hn::Add(fit.ll, part.ll);
  }
  return fit;
}

// Returns the lanes whose integer surely stays. If the sum of the others is not above 0, the search
// moves nothing. Otherwise the integer is already the best one if the best number is within 0.499
// of it. Products decide that without a division; their rounding errors, at most 2^-20 for sums in
// this range, are far below the margin of 0.001.
HWY_INLINE M Stays(const LaneFit& others, V x, V level) {
  const V off = hn::Abs(hn::Sub(hn::Mul(x, others.ll), hn::Mul(level, others.xl)));
  const M near = hn::Le(off, hn::Mul(others.xl, Splat(0.499f)));
  const M sure = hn::And(near, hn::Gt(others.xl, Splat(1e-30f)));
  return hn::Or(sure, hn::Not(hn::Gt(others.xl, hn::Zero(D()))));
}

// Returns the lanes in which no value moves from its first integer, so that nothing is left to do.
HWY_INLINE M AllStay(const LaneFit& start, const PlainGroup& group) {
  const D d;
  M stay = AllLanes();
  for (size_t i = 0; i < kCount; ++i) {
    const size_t at = i * LaneCount();
    const LaneFit others{hn::Sub(start.xl, hn::Load(d, group.xl + at)),
                         hn::Sub(start.ll, hn::Load(d, group.ll + at))};
    stay = hn::And(stay, Stays(others, hn::Load(d, group.x + at), hn::Load(d, group.level + at)));
  }
  return stay;
}

// Moves values in group `j` of the blocks whose lanes may have moves, one block after another.
HWY_INLINE LaneFit MoveInLanes(const LaneBlocks& blocks, size_t j, V inverse, LaneFit fit,
                               const PlainGroup& group) {
  const D d;
  unsigned left = BitsOf(hn::Not(AllStay(fit, group)));
  if (left == 0) return fit;
  HWY_ALIGN float inverses[kMaxLanes], xl[kMaxLanes], ll[kMaxLanes];
  hn::Store(inverse, d, inverses);
  hn::Store(fit.xl, d, xl);
  hn::Store(fit.ll, d, ll);
  for (; left != 0; left &= left - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(left));
    const GroupSums sums =
        MoveLevels(blocks.value[lane] + j * kCount, inverses[lane], {xl[lane], ll[lane]});
    xl[lane] = sums.xl;
    ll[lane] = sums.ll;
  }
  return {hn::Load(d, xl), hn::Load(d, ll)};
}

// No integers are kept. The reference finds them again for the rare block that RoundToLargest marks
// as lost.
HWY_INLINE SignedFit FitPlainGroup(const LaneBlocks& blocks, size_t j, PlainGroup& group) {
  const SignedExtent extent = SignedExtentOf<kCount>(group.x);
  SignedFit best;
  best.zero = hn::Lt(hn::Abs(extent.largest), Splat(kZeroGroup));
  best.exact = IsFinite(extent);
  best.used_inverse = hn::Div(Splat(-kQ3KLevels), extent.largest);
  const LaneFit start = StartFrom(best.used_inverse, group);
  const LaneFit fit = MoveInLanes(blocks, j, best.used_inverse, start, group);
  best.scale = hn::IfThenZeroElse(best.zero, fit.Scale());
  return best;
}

// The group scales of all lanes as six bits.
struct RoundedScales {
  HWY_ALIGN float d[kMaxLanes];
  HWY_ALIGN uint8_t level[kSignedGroups * kMaxLanes];  // [group][lane]
  bool lost[kMaxLanes];  // the scale of a nonzero group is rounded to 0
};

// Rounds the group scales of every lane so that the one of largest magnitude gets -32, as the
// reference does.
void RoundToLargest(const SignedFits& fits, RoundedScales& out) {
  const D d;
  const DI di;
  const hn::Rebind<uint8_t, DI> bytes;
  const V largest = SignedExtentOf<kSignedGroups>(fits.scale).largest;
  const V inverse = hn::Div(Splat(-kQ3KScaleLevels), largest);
  const M zero = hn::Eq(largest, hn::Zero(d));
  M lost = hn::Not(AllLanes());
  for (size_t j = 0; j < kSignedGroups; ++j) {
    const size_t at = j * LaneCount();
    const VI nearest = NearestIntOf(hn::Mul(inverse, hn::Load(d, fits.scale + at)));
    // The two shifts keep the lowest byte with its sign, as the cast to int8_t in the reference
    // does.
    const VI byte = hn::ShiftRight<24>(hn::ShiftLeft<24>(nearest));
    const VI level = ClampLevel(byte, -kQ3KScaleLevels, kQ3KScaleLevels - 1);
    const VI shifted = hn::Add(level, hn::Set(di, kQ3KScaleLevels));
    const VI stored = hn::IfThenZeroElse(hn::RebindMask(di, zero), shifted);
    hn::StoreU(hn::DemoteTo(bytes, stored), bytes, out.level + at);
    const M no_level = hn::RebindMask(d, hn::Eq(level, hn::Zero(di)));
    lost = hn::Or(lost, hn::And(no_level, hn::Eq(hn::Load(d, fits.zero + at), hn::Zero(d))));
  }
  const V scale = hn::Div(Splat(1.0f), inverse);
  // A scale that is stored as 0 keeps the integers of the search, which the lanes do not have; such
  // blocks go to the reference.
  const M no_half = hn::Le(hn::Abs(scale), Splat(0x1p-25f));  // these are 0 as F16
  hn::Store(hn::IfThenZeroElse(zero, scale), d, out.d);
  StoreMask(hn::Or(lost, hn::And(no_half, hn::Not(zero))), out.lost);
}

void FitPlain(const LaneBlocks& blocks, SignedFits& fits, BlockQ3K* out) {
  PlainGroup group;
  M exact = AllLanes();
  for (size_t j = 0; j < kSignedGroups; ++j) {
    LoadTransposed(blocks.value, j * kCount, kCount, group.x);
    exact = hn::And(exact, StoreFit(FitPlainGroup(blocks, j, group), j, fits));
  }
  StoreMask(exact, fits.exact);
  RoundedScales rounded;
  RoundToLargest(fits, rounded);
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    LevelsQ3K levels;
    for (size_t j = 0; j < kSignedGroups; ++j) levels[j] = rounded.level[j * LaneCount() + lane];
    SetScalesQ3K(rounded.d[lane], levels, out[lane]);
    fits.exact[lane] &= !rounded.lost[lane];
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

HWY_INLINE void LoadScalesQ3K(const uint8_t* block, float* scale) {
  const uint8_t* const packed = block + offsetof(BlockQ3K, packed);
  // Eight levels at a time, one in each byte of a word.
  const auto lower = LoadNumber<uint64_t>(packed);
  const uint64_t upper = LoadNumber<uint32_t>(packed + 8);
  // Byte 8 + j has the upper bits of the levels j, j + 4, j + 8 and j + 12, two for each.
  const uint64_t first = upper | upper >> 2 << 32, last = upper >> 4 | upper >> 6 << 32;
  constexpr uint64_t kLow = 0x0f0f0f0f0f0f0f0f, kHigh = 0x0303030303030303;
  const float d = LoadHalf(block + offsetof(BlockQ3K, d));
  ScaleWord((lower & kLow) | (first & kHigh) << 4, d, scale, kQ3KScaleLevels);
  ScaleWord((lower >> 4 & kLow) | (last & kHigh) << 4, d, scale + 8, kQ3KScaleLevels);
}

struct PackedQ3K {
  template <size_t kFirst, class DB>
  static HWY_INLINE auto From(DB d, const uint8_t* block, size_t i) {
    const auto low = TwoBitsFrom<kFirst>(d, block + offsetof(BlockQ3K, qs), i);
    const auto high = OneBitFrom<kFirst>(d, block + offsetof(BlockQ3K, hmask), i);
    return SignedLevels(d, hn::Or(low, hn::ShiftLeft<2>(high)), kQ3KLevels);
  }
};

HWY_INLINE void DecodeBlockQ3K(const uint8_t* block, float* out) {
  GroupScales<BlockQ3K::kGroups> scales;
  LoadScalesQ3K(block, scales.scale);
  DecodeGroups<PackedQ3K>(block, scales, out);
}

void DecodeQ3KLanes(std::span<const std::byte> in, std::span<float> out) {
  if (!kHasVectors) return DecodeQ3KRef(in, out);
  DecodeEach<BlockQ3K, DecodeBlockQ3K>(in, out);
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

HWY_EXPORT(DecodeQ3KLanes);

void DecodeQ3K(std::span<const std::byte> blocks, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(DecodeQ3KLanes)(blocks, out);
}

}  // namespace quant
#endif
