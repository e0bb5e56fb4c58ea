// The encoders of the grid types: GridBlock by lane, from the fits of its groups.
#if defined(QUANT_GRID_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_GRID_LANES_INL_H_
#undef QUANT_GRID_LANES_INL_H_
#else
#define QUANT_GRID_LANES_INL_H_
#endif

#include "quant/grids/grid_encode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

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
