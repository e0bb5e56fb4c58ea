// The nearest neighbour of one block's levels (GroupFitter::NearestNeighbour of grid_block.cc),
// with the points of its list in the lanes: each adds up the errors of its values in their order.
#if defined(QUANT_GRID_NEIGHBOURS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUANT_GRID_NEIGHBOURS_INL_H_
#undef QUANT_GRID_NEIGHBOURS_INL_H_
#else
#define QUANT_GRID_NEIGHBOURS_INL_H_
#endif

#include <limits>

#include "quant/grids/grid.h"
#include "quant/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quant {
namespace HWY_NAMESPACE {

// Lists of points of four values are short.
template <class Grid>
using DN = hn::CappedTag<float, Grid::kSize == 4 ? 8 : kMaxLanes>;

// Magnitudes and roots of the weights of one point's values, each `stride` floats apart.
struct PointValues {
  const float* magnitudes;
  const float* roots;
  size_t stride;
};

// The errors of each level of each value at a scale. Where a vector has room for all levels, an
// error is looked up, and otherwise computed for each point.
template <class Grid>
class LevelErrors {
 public:
  static constexpr bool kLookUp = HWY_MAX_BYTES >= 32;

  HWY_INLINE LevelErrors(const PointValues& values, float scale) : values_(values), scale_(scale) {
    if constexpr (kLookUp) {
      const DN<Grid> d;
      const hn::RebindToSigned<DN<Grid>> di;
      const auto level = hn::And(hn::Iota(di, 0), hn::Set(di, kMask));
      const auto scaled = Scaled(level);
      for (size_t i = 0; i < Grid::kSize; ++i) hn::Store(ErrorOf(scaled, i), d, errors_[i]);
    }
  }

  // `levels` packs the levels of value i from bit 0 on.
  template <class VInt>
  HWY_INLINE hn::Vec<DN<Grid>> Of(VInt levels, size_t i) const {
    const DN<Grid> d;
    const hn::RebindToSigned<DN<Grid>> di;
    const auto level = hn::And(levels, hn::Set(di, kMask));
    if constexpr (kLookUp) {
      return hn::TableLookupLanes(hn::Load(d, errors_[i]), hn::IndicesFromVec(d, level));
    } else {
      return ErrorOf(Scaled(level), i);
    }
  }

 private:
  static constexpr int kMask = (1 << Grid::kBits) - 1;

  // scale * (2 * level + 1)
  template <class VInt>
  HWY_INLINE hn::Vec<DN<Grid>> Scaled(VInt level) const {
    const DN<Grid> d;
    const hn::RebindToSigned<DN<Grid>> di;
    const auto value = hn::Add(hn::Add(level, level), hn::Set(di, 1));
    return hn::Mul(hn::Set(d, scale_), hn::ConvertTo(d, value));
  }

  HWY_INLINE hn::Vec<DN<Grid>> ErrorOf(hn::Vec<DN<Grid>> scaled, size_t i) const {
    const DN<Grid> d;
    const auto difference = hn::Sub(scaled, hn::Set(d, values_.magnitudes[i * values_.stride]));
    const auto root = hn::Set(d, values_.roots[i * values_.stride]);
    return hn::Mul(hn::Mul(root, difference), difference);
  }

  PointValues values_;
  float scale_;
  HWY_ALIGN float errors_[Grid::kSize][kMaxLanes];
};

// Returns the place of the first of the least, or 0 if none is below `limit`. The least of each
// lane is the first of that lane; `vectors` says in which vector it is.
template <class DF, class VF, class VInt>
HWY_INLINE size_t PlaceOfLeast(DF d, VF least, VInt vectors, float limit) {
  const hn::RebindToSigned<DF> di;
  const auto all = hn::MinOfLanes(d, least);
  if (!(hn::GetLane(all) < limit)) return 0;
  const auto mask = hn::Eq(least, all);
  if (hn::CountTrue(d, mask) == 1) {
    HWY_ALIGN int32_t vector[kMaxLanes];
    hn::Store(vectors, di, vector);
    const auto lane = static_cast<size_t>(hn::FindFirstTrue(d, mask));
    return static_cast<size_t>(vector[lane]) * hn::Lanes(d) + lane;
  }
  const auto lanes = hn::Set(di, static_cast<int32_t>(hn::Lanes(d)));
  const auto places = hn::Add(hn::Mul(vectors, lanes), hn::Iota(di, 0));
  const auto beyond = hn::Set(di, std::numeric_limits<int32_t>::max());
  const auto masked = hn::IfThenElse(hn::RebindMask(di, mask), places, beyond);
  return static_cast<size_t>(hn::GetLane(hn::MinOfLanes(di, masked)));
}

// Returns the packed neighbour. `entry` is that of Grid::entries, and no point.
template <class Grid>
HWY_INLINE uint16_t NearestNeighbour(const Grid& grid, int32_t entry, const PointValues& values,
                                     float scale) {
  const DN<Grid> d;
  const hn::RebindToSigned<DN<Grid>> di;
  const hn::Rebind<uint16_t, DN<Grid>> packed;
  const auto list = static_cast<uint32_t>(~entry);
  const uint16_t* const neighbours =
      grid.all_neighbours() + (list >> Grid::kVectorBits) * Grid::kNeighbourStep;
  const size_t room = (list & ((1u << Grid::kVectorBits) - 1)) * Grid::kNeighbourStep;
  const LevelErrors<Grid> errors(values, scale);
  constexpr float kLimit = std::numeric_limits<float>::max();
  auto least = hn::Set(d, kLimit);
  auto nearest = hn::Zero(di);
  int32_t vector = 0;
  for (size_t at = 0; at < room; at += hn::Lanes(d), ++vector) {
    const auto points = hn::PromoteTo(di, hn::LoadU(packed, neighbours + at));
    auto error = errors.Of(points, 0);
    for (size_t i = 1; i < Grid::kSize; ++i) {
      const auto levels = hn::ShiftRightSame(points, static_cast<int>(Grid::kBits * i));
      error = hn::Add(error, errors.Of(levels, i));
    }
    const auto better = hn::Lt(error, least);
    least = hn::IfThenElse(better, error, least);
    nearest = hn::IfThenElse(hn::RebindMask(di, better), hn::Set(di, vector), nearest);
  }
  return neighbours[PlaceOfLeast(d, least, nearest, kLimit)];
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
