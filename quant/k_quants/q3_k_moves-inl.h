// The moves of q3_K without importance in one group. Here the lanes hold neighbouring values,
// because a move of each of them is tried with the same sums.
#if defined(QUANT_Q3_K_MOVES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_Q3_K_MOVES_INL_H_
#undef QUANT_Q3_K_MOVES_INL_H_
#else
#define QUANT_Q3_K_MOVES_INL_H_
#endif

#include <bit>

#include "quant/k_quants/q3_k.h"
#include "quant/search/lane_fit-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

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

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
