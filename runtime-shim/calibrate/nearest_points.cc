#include "runtime-shim/calibrate/nearest_points.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime-shim/calibrate/nearest_points.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace moepack::runtime {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr size_t kMostHalves = 256;

// (w - q) S (w - q)' = w S w' + sum over i of q_i (linear_i + sum over j >= i of square_ij q_j),
// with a target in each lane.
template <size_t kSize>
struct Form {
  V linear[kSize], square[kSize][kSize];

  Form(const PointTargets& targets, size_t c) {
    const D d;
    V signs[kSize];
    for (size_t i = 0; i < kSize; ++i)
      signs[i] = hn::Mul(hn::LoadU(d, targets.signs + i * kPanelColumns + c),
                         hn::LoadU(d, targets.scales + c));
    for (size_t i = 0; i < kSize; ++i) {
      const float* const costs = targets.costs + i * kSize;
      V sum = hn::Zero(d);
      for (size_t j = 0; j < kSize; ++j)
        sum = hn::Add(sum, hn::Mul(hn::Set(d, costs[j]),
                                   hn::LoadU(d, targets.wanted + j * kPanelColumns + c)));
      linear[i] = hn::Mul(hn::Mul(hn::Set(d, -2.0f), signs[i]), sum);
      for (size_t j = i; j < kSize; ++j)
        square[i][j] =
            hn::Mul(hn::Set(d, (j == i ? 1.0f : 2.0f) * costs[j]), hn::Mul(signs[i], signs[j]));
    }
  }

  // The part of a half that starts at value `first`.
  HWY_INLINE V OfHalf(size_t first, const float* codes) const {
    const D d;
    V sum = hn::Zero(d);
    for (size_t i = 0; i < kHalfOfPoint; ++i) {
      V slope = linear[first + i];
      for (size_t j = i; j < kHalfOfPoint; ++j)
        slope = hn::Add(slope, hn::Mul(square[first + i][first + j], hn::Set(d, codes[j])));
      sum = hn::Add(sum, hn::Mul(slope, hn::Set(d, codes[i])));
    }
    return sum;
  }
};

// The formula of NearestPointsRef. No product is fused with a sum, so that all instruction sets
// choose the same. Points are ordered by their second halves.
template <size_t kSize>
HWY_INLINE void NearestOf(const PointBook& book, const PointTargets& targets, uint16_t* chosen) {
  constexpr size_t kHalf = kHalfOfPoint;
  const D d;
  const hn::RebindToSigned<D> di;
  const size_t lanes = hn::Lanes(d), count = book.first_half_of.size();
  alignas(64) float halves[kMostHalves * 16];
  for (size_t c = 0; c < kPanelColumns; c += lanes) {
    const Form<kSize> form(targets, c);
    if constexpr (kSize > kHalf) {
      for (size_t h = 0; h < book.first_halves.size() / kHalf; ++h)
        hn::Store(form.OfHalf(0, book.first_halves.data() + h * kHalf), d, halves + h * lanes);
    }
    V least = hn::Set(d, std::numeric_limits<float>::infinity());
    auto best = hn::Zero(di);
    V second = hn::Zero(d), cross[kHalf];
    const float* known = nullptr;  // the second half that `second` and `cross` are of
    for (size_t p = 0; p < count; ++p) {
      const float* const codes = book.codes.data() + p * kSize;
      V cost;
      if constexpr (kSize == kHalf) {
        cost = form.OfHalf(0, codes);
      } else {
        if (known == nullptr || !std::equal(known, known + kHalf, codes + kHalf)) {
          known = codes + kHalf;
          second = form.OfHalf(kHalf, known);
          for (size_t i = 0; i < kHalf; ++i) {
            cross[i] = hn::Zero(d);
            for (size_t j = 0; j < kHalf; ++j)
              cross[i] =
                  hn::Add(cross[i], hn::Mul(form.square[i][kHalf + j], hn::Set(d, known[j])));
          }
        }
        cost = hn::Add(hn::Load(d, halves + book.first_half_of[p] * lanes), second);
        for (size_t i = 0; i < kHalf; ++i)
          cost = hn::Add(cost, hn::Mul(cross[i], hn::Set(d, codes[i])));
      }
      const auto less = hn::Lt(cost, least);
      least = hn::IfThenElse(less, cost, least);
      best = hn::IfThenElse(hn::RebindMask(di, less), hn::Set(di, static_cast<int32_t>(p)), best);
    }
    alignas(64) std::array<int32_t, 16> places;
    hn::Store(best, di, places.data());
    for (size_t lane = 0; lane < lanes; ++lane)
      chosen[c + lane] = static_cast<uint16_t>(places[lane]);
  }
}

void NearestPointsLanes(const PointBook& book, const PointTargets& targets, uint16_t* chosen) {
  if (book.size == kHalfOfPoint) return NearestOf<kHalfOfPoint>(book, targets, chosen);
  NearestOf<2 * kHalfOfPoint>(book, targets, chosen);
}

}  // namespace HWY_NAMESPACE
}  // namespace moepack::runtime
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moepack::runtime {

HWY_EXPORT(NearestPointsLanes);

PointBook::PointBook(const quant::PointGrid& grid) : size(grid.size), codes(grid.codes) {
  std::map<std::array<float, kHalfOfPoint>, uint16_t> known;
  for (size_t p = 0; p < grid.count(); ++p) {
    std::array<float, kHalfOfPoint> half;
    std::copy_n(codes.begin() + static_cast<ptrdiff_t>(p * size), kHalfOfPoint, half.begin());
    const auto [found, added] = known.try_emplace(half, static_cast<uint16_t>(known.size()));
    if (added) first_halves.insert(first_halves.end(), half.begin(), half.end());
    first_half_of.push_back(found->second);
  }
}

void NearestPoints(const PointBook& book, const PointTargets& targets, uint16_t* chosen) {
  HWY_DYNAMIC_DISPATCH(NearestPointsLanes)(book, targets, chosen);
}

void NearestPointsRef(const PointBook& book, const PointTargets& targets, uint16_t* chosen) {
  const size_t size = book.size;
  for (size_t c = 0; c < kPanelColumns; ++c) {
    std::array<float, kMostOfPoint> signs, linear;
    for (size_t i = 0; i < size; ++i)
      signs[i] = targets.signs[i * kPanelColumns + c] * targets.scales[c];
    for (size_t i = 0; i < size; ++i) {
      float sum = 0;
      for (size_t j = 0; j < size; ++j)
        sum += targets.costs[i * size + j] * targets.wanted[j * kPanelColumns + c];
      linear[i] = -2 * signs[i] * sum;
    }
    const auto square = [&](size_t i, size_t j) {
      return (j == i ? 1.0f : 2.0f) * targets.costs[i * size + j] * (signs[i] * signs[j]);
    };
    const auto of_half = [&](size_t first, const float* codes) {
      float sum = 0;
      for (size_t i = first; i < first + kHalfOfPoint; ++i) {
        float slope = linear[i];
        for (size_t j = i; j < first + kHalfOfPoint; ++j) slope += square(i, j) * codes[j];
        sum += slope * codes[i];
      }
      return sum;
    };
    float least = std::numeric_limits<float>::infinity();
    chosen[c] = 0;
    for (size_t p = 0; p < book.first_half_of.size(); ++p) {
      const float* const codes = book.codes.data() + p * size;
      float cost = of_half(0, codes);
      if (size > kHalfOfPoint) {
        cost += of_half(kHalfOfPoint, codes);
        for (size_t i = 0; i < kHalfOfPoint; ++i) {
          float cross = 0;
          for (size_t j = kHalfOfPoint; j < size; ++j) cross += square(i, j) * codes[j];
          cost += cross * codes[i];
        }
      }
      if (!(cost < least)) continue;
      least = cost;
      chosen[c] = static_cast<uint16_t>(p);
    }
  }
}

}  // namespace moepack::runtime
#endif
