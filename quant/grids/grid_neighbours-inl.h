// The nearest neighbour of one block's levels (GroupFitter::NearestNeighbour of grid_block.cc),
// with the points of its list in the lanes. Each lane adds up the errors of its values in order.
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

// Most lists fill one vector of eight; longer vectors would hold repetitions.
using DN = hn::CappedTag<float, Grid8::kNeighbourStep>;
using DNI = hn::RebindToSigned<DN>;
using VN = hn::Vec<DN>;
using VNI = hn::Vec<DNI>;
static_assert(Grid8::kNeighbourStep == Grid4::kNeighbourStep);

// The magnitudes of one point's values and the roots of their weights, each `stride` floats apart.
struct PointValues {
  const float* magnitudes;
  const float* roots;
  size_t stride;
};

// The errors of each level of each value at a scale. If a vector has room for eight levels, errors
// are looked up; otherwise they are computed for each point.
template <class Grid>
class LevelErrors {
 public:
  HWY_INLINE LevelErrors(const PointValues& values, float scale) : values_(values), scale_(scale) {
    if constexpr (kLookUp) {
      const VN scaled = Scaled(Level(hn::Iota(DNI(), 0)));
      for (size_t i = 0; i < Grid::kSize; ++i) errors_[i] = ErrorOf(scaled, i);
    }
  }

  // The sum over the values of each point, in their order.
  HWY_INLINE VN Of(VNI points) const {
    VN sum = OfValue(points, 0);
    for (size_t i = 1; i < Grid::kSize; ++i) {
      sum = hn::Add(sum, OfValue(hn::ShiftRightSame(points, static_cast<int>(Grid::kBits * i)), i));
    }
    return sum;
  }

 private:
  static constexpr bool kLookUp = HWY_MAX_BYTES >= 32;

  static HWY_INLINE VNI Level(VNI levels) {
    return hn::And(levels, hn::Set(DNI(), (1 << Grid::kBits) - 1));
  }

  // `levels` packs the levels of value i from bit 0 on.
  HWY_INLINE VN OfValue(VNI levels, size_t i) const {
    if constexpr (kLookUp) {
      // A look-up reads three bits of each index, but with two-bit levels the third does not
      // matter, because errors_ repeats itself. Highway asks for clean indices in debug builds.
      const VNI index = HWY_IS_DEBUG_BUILD ? Level(levels) : levels;
      return hn::TableLookupLanes(errors_[i], hn::IndicesFromVec(DN(), index));
    } else {
      return ErrorOf(Scaled(Level(levels)), i);
    }
  }

  // scale * (2 * level + 1)
  HWY_INLINE VN Scaled(VNI level) const {
    const VNI value = hn::Add(hn::Add(level, level), hn::Set(DNI(), 1));
    return hn::Mul(hn::Set(DN(), scale_), hn::ConvertTo(DN(), value));
  }

  HWY_INLINE VN ErrorOf(VN scaled, size_t i) const {
    const DN d;
    const VN difference = hn::Sub(scaled, hn::Set(d, values_.magnitudes[i * values_.stride]));
    const VN root = hn::Set(d, values_.roots[i * values_.stride]);
    return hn::Mul(hn::Mul(root, difference), difference);
  }

  PointValues values_;
  float scale_;
  VN errors_[Grid::kSize];
};

// The reference starts from this: an error that is not below it does not count.
inline constexpr float kNoError = std::numeric_limits<float>::max();

// Returns the index of the first of the smallest errors, or 0 if none is below kNoError. Each lane
// holds the first of its smallest; `vectors` says in which vector it is.
HWY_INLINE size_t PlaceOfLeast(VN least, VNI vectors) {
  const DN d;
  const DNI di;
  const VN all = hn::MinOfLanes(d, least);
  if (!(hn::GetLane(all) < kNoError)) return 0;
  const VNI lanes = hn::Set(di, static_cast<int32_t>(hn::Lanes(d)));
  const VNI places = hn::Add(hn::Mul(vectors, lanes), hn::Iota(di, 0));
  const VNI beyond = hn::Set(di, std::numeric_limits<int32_t>::max());
  const VNI masked = hn::IfThenElse(hn::RebindMask(di, hn::Eq(least, all)), places, beyond);
  return static_cast<size_t>(hn::GetLane(hn::MinOfLanes(di, masked)));
}

// Returns the packed neighbour. `entry` is that of Grid::entries for a cell that is not a point.
template <class Grid>
HWY_INLINE uint16_t NearestNeighbour(const Grid& grid, int32_t entry, const PointValues& values,
                                     float scale) {
  const DN d;
  const DNI di;
  const hn::Rebind<uint16_t, DN> packed;
  const auto list = static_cast<uint32_t>(~entry);
  const uint16_t* const neighbours =
      grid.all_neighbours() + (list >> Grid::kVectorBits) * Grid::kNeighbourStep;
  const size_t room = (list & ((1u << Grid::kVectorBits) - 1)) * Grid::kNeighbourStep;
  const LevelErrors<Grid> errors(values, scale);
  const VN none = hn::Set(d, kNoError);
  VN least = errors.Of(hn::PromoteTo(di, hn::LoadU(packed, neighbours)));
  least = hn::IfThenElse(hn::Lt(least, none), least, none);
  if (room == hn::Lanes(d)) {
    const VN all = hn::MinOfLanes(d, least);
    // If no error is below kNoError, all are equal and the first is taken.
    return neighbours[hn::FindFirstTrue(d, hn::Eq(least, all))];
  }
  VNI nearest = hn::Zero(di);
  int32_t vector = 1;
  for (size_t at = hn::Lanes(d); at < room; at += hn::Lanes(d), ++vector) {
    const VN error = errors.Of(hn::PromoteTo(di, hn::LoadU(packed, neighbours + at)));
    const auto better = hn::Lt(error, least);
    least = hn::IfThenElse(better, error, least);
    nearest = hn::IfThenElse(hn::RebindMask(di, better), hn::Set(di, vector), nearest);
  }
  return neighbours[PlaceOfLeast(least, nearest)];
}

}  // namespace HWY_NAMESPACE
}  // namespace quant
HWY_AFTER_NAMESPACE();

#endif
