// The encoders of the grid types: GridBlock by lane, from the fits of its groups.
#if defined(QUANT_GRID_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_GRID_LANES_INL_H_
#undef QUANT_GRID_LANES_INL_H_
#else
#define QUANT_GRID_LANES_INL_H_
#endif

#include "quant/grids/grid_fit-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Super-blocks of the grid types, one in each lane. A type is described by a struct with its Grid,
// its Block, kRules, and functions ThisGrid, Pack and Reference.

// A group of every lane. `zero`: the group counts as zero. The reference has to encode the lanes
// outside `exact`.
struct LaneFitResult {
  V scale;
  M zero, exact;
};

struct LaneReach {
  V reach, scale;  // the trials divide by `reach` and start from `scale`
  V largest;       // magnitude
  M zero;
};

template <class Type>
HWY_INLINE LaneReach ReachOf(const LaneGroup& group) {
  constexpr size_t kCount = Type::kRules.group_values;
  constexpr float kTop = static_cast<float>(2 * Type::Grid::kLevels - 1);
  const D d;
  V reach = hn::Load(d, group.magnitudes);
  V largest = hn::Abs(reach);
  for (size_t i = 1; i < kCount; ++i) {
    const V x = hn::Load(d, group.magnitudes + i * LaneCount());
    reach = hn::IfThenElse(hn::Gt(reach, x), reach, x);
    largest = hn::Max(largest, hn::Abs(x));
  }
  const M zero = hn::Lt(reach, Splat(Type::kRules.zero_limit));
  if constexpr (!Type::kRules.positive_start) {
    return {reach, hn::Div(reach, Splat(kTop)), largest, zero};
  } else {
    HWY_ALIGN int32_t levels[kCount * kMaxLanes];
    const V scale = FitPositiveLanes<kCount>(group.magnitudes, group.weights,
                                             static_cast<int>(Type::Grid::kLevels) + 1, levels);
    reach = hn::Mul(scale, Splat(static_cast<float>(Type::Grid::kLevels)));
    return {reach, scale, largest, hn::Or(zero, hn::Le(reach, hn::Zero(d)))};
  }
}

HWY_INLINE void TakeChoice(M better, size_t points, const LaneChoice& tried, LaneChoice& best) {
  const DI di;
  const auto mask = hn::RebindMask(di, better);
  const auto take = [&](const int32_t* from, int32_t* to) {
    hn::Store(hn::IfThenElse(mask, hn::Load(di, from), hn::Load(di, to)), di, to);
  };
  for (size_t k = 0; k < points; ++k) {
    take(tried.points + k * LaneCount(), best.points + k * LaneCount());
  }
  take(tried.off_grid, best.off_grid);
}

// Sets the points of `best`. A lane is not exact if its levels become so large that the reference
// rounds them differently.
template <class Type>
HWY_INLINE LaneFitResult FitLanes(const LaneGroup& group, size_t lanes, LaneChoice& best) {
  constexpr GridRules kRules = Type::kRules;
  using Grid = typename Type::Grid;
  using Fitter = LaneFitter<Grid, kRules.group_values>;
  constexpr float kTop = static_cast<float>(2 * Grid::kLevels - 1);
  const D d;
  const DI di;
  const V one = Splat(1.0f), most = Splat(0x1p20f);
  const Fitter fitter(Type::ThisGrid(), group, lanes);
  const LaneReach start = ReachOf<Type>(group);
  const V largest_inverse = hn::Div(Splat(kTop + kRules.last * kRules.step), start.reach);
  M exact = hn::Or(start.zero, hn::Lt(hn::Abs(hn::Mul(largest_inverse, start.largest)), most));
  const M active = hn::AndNot(start.zero, exact);
  for (size_t k = 0; k < Fitter::kPoints; ++k) {
    hn::Store(hn::Zero(di), di, best.points + k * LaneCount());
  }
  hn::Store(hn::Set(di, kRules.refit == Refit::kOffGrid ? 0 : -1), di, best.off_grid);
  V scale = start.scale, gain = hn::Zero(d);
  for (int i = -kRules.last; i <= kRules.last; ++i) {
    const float divisor = kTop + static_cast<float>(i) * kRules.step;
    const V inverse = hn::Div(Splat(divisor), start.reach);
    const V tried_scale = hn::Div(one, inverse);
    LaneChoice tried;
    hn::Store(hn::Zero(di), di, tried.off_grid);
    for (size_t k = 0; k < Fitter::kPoints; ++k) {
      hn::Store(hn::Zero(di), di, tried.points + k * LaneCount());
      fitter.ChoosePoint(k, inverse, tried_scale, active, tried);
    }
    const LaneSums sums = fitter.SumsOf(tried);
    const M better = hn::And(hn::Gt(sums.ll, hn::Zero(d)),
                             hn::Gt(hn::Mul(sums.xl, sums.xl), hn::Mul(gain, sums.ll)));
    const V fitted = hn::Div(sums.xl, sums.ll);
    scale = hn::IfThenElse(better, fitted, scale);
    gain = hn::IfThenElse(better, hn::Mul(fitted, sums.xl), gain);
    TakeChoice(better, Fitter::kPoints, tried, best);
  }
  // GroupFitter::FitAgain.
  const VI off_grid = hn::Load(di, best.off_grid);
  const M wanted = kRules.refit == Refit::kAlways
                       ? AllLanes()
                       : hn::RebindMask(d, hn::Ne(off_grid, hn::Zero(di)));
  const M again = hn::And(hn::And(wanted, active), hn::Gt(scale, hn::Zero(d)));
  const V inverse = hn::Div(one, scale);
  const M small = hn::Lt(hn::Mul(inverse, start.largest), most);
  exact = hn::And(exact, hn::Or(hn::Not(again), small));
  const M chosen = hn::And(again, small);
  for (size_t k = 0; k < Fitter::kPoints; ++k) {
    const auto off = hn::TestBit(off_grid, hn::Set(di, 1 << k));
    const M these =
        kRules.refit == Refit::kOffGrid ? hn::And(chosen, hn::RebindMask(d, off)) : chosen;
    fitter.ChoosePoint(k, inverse, scale, these, best);
  }
  const LaneSums sums = fitter.SumsOf(best);
  const M fits = hn::And(chosen, hn::Gt(sums.ll, hn::Zero(d)));
  return {hn::IfThenElse(fits, hn::Div(sums.xl, sums.ll), scale), start.zero, exact};
}

// FitGroup of grid_block.cc for group j, by lane.
template <class Type>
struct LaneGridBlocks {
  using Grid = typename Type::Grid;
  static constexpr size_t kGroups = kSuperBlock / Type::kRules.group_values;
  static constexpr size_t kPoints = Type::kRules.group_values / Grid::kSize;
  static constexpr size_t kSigns = Type::kRules.group_values / kSignedValues;

  GridBlock block[kMaxLanes];
  float scale[kMaxLanes][kGroups];
  bool exact[kMaxLanes];

  void Take(size_t j, size_t lanes, const LaneGroup& group, const LaneChoice& choice,
            const LaneFitResult& fit) {
    HWY_ALIGN float scales[kMaxLanes];
    bool zero[kMaxLanes], group_exact[kMaxLanes];
    hn::Store(fit.scale, D(), scales);
    StoreMask(fit.zero, zero);
    StoreMask(fit.exact, group_exact);
    for (size_t lane = 0; lane < lanes; ++lane) {
      exact[lane] = exact[lane] && group_exact[lane];
      scale[lane][j] = 0;
      if (zero[lane]) block[lane].zero_groups |= 1u << j;
      if (zero[lane] || !exact[lane]) continue;
      const bool turned = scales[lane] < 0;
      scale[lane][j] = turned ? -scales[lane] : scales[lane];
      TakePoints(j, lane, choice, block[lane]);
      for (size_t k = 0; k < kSigns; ++k) {
        const int32_t signs = group.signs[k * LaneCount() + lane];
        block[lane].signs[j * kSigns + k] = static_cast<uint8_t>(turned ? ~signs : signs);
      }
    }
  }

 private:
  static void TakePoints(size_t j, size_t lane, const LaneChoice& choice, GridBlock& block) {
    for (size_t k = 0; k < kPoints; ++k) {
      const auto point = static_cast<uint16_t>(choice.points[k * LaneCount() + lane]);
      const size_t cell = Grid::CellOf(Grid::LevelsOf(point));
      block.numbers[j * kPoints + k] = static_cast<uint16_t>(Type::ThisGrid().PointIn(cell));
    }
  }
};

template <class Type>
void EncodeGridLanes(const LaneBlocks& blocks, std::span<typename Type::Block> out) {
  constexpr GridRules kRules = Type::kRules;
  using Lanes = LaneGridBlocks<Type>;
  HWY_ALIGN float x[kSuperBlock * kMaxLanes];
  LoadTransposed(blocks.value, 0, kSuperBlock, x);
  const V squares = hn::Mul(Splat(kRules.spread), SumOfSquares<kSuperBlock>(x));
  const V spread = hn::Div(squares, Splat(static_cast<float>(kSuperBlock)));
  Lanes lanes{};
  // Excludes lanes with NaN or infinite values and with sums that overflow.
  StoreMask(hn::Lt(spread, Splat(0x1p127f)), lanes.exact);
  for (size_t j = 0; j < Lanes::kGroups; ++j) {
    const size_t first = j * kRules.group_values;
    LaneGroup group;
    LaneChoice choice;
    PrepareGroup<kRules.group_values>(kRules, blocks, first, x + first * LaneCount(), spread,
                                      group);
    const LaneFitResult fit = FitLanes<Type>(group, blocks.count, choice);
    lanes.Take(j, blocks.count, group, choice, fit);
  }
  for (size_t lane = 0; lane < blocks.count; ++lane) {
    if (lanes.exact[lane]) {
      RoundGridScales(kRules, lanes.scale[lane], lanes.block[lane]);
      out[lane] = Type::Pack(lanes.block[lane]);
    } else {
      EncodeByReference(blocks, lane, Type::Reference, out[lane]);
    }
  }
}

template <class Type>
HWY_INLINE void EncodeGridRun(Values values, Values importance, std::span<std::byte> out) {
  if (!kHasVectors) return Type::Reference(values, importance, out);
  EncodeInLanes<typename Type::Block>({values, importance, out}, LaneCount(),
                                      EncodeGridLanes<Type>);
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
