#include "runtime-shim/gradient/adam.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime-shim/gradient/adam.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "libshard/base/parallel.h"
#include "libshard/strategies/split_mix.h"

HWY_BEFORE_NAMESPACE();
namespace moepack::runtime {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Whole vectors; returns how many values that is. Each product and sum is rounded, as in MoveValue.
size_t MoveVectors(const AdamMove& move, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const AdamStep& step = move.step;
  const auto most = hn::Set(d, step.most), least = hn::Set(d, -step.most);
  const auto keep_first = hn::Set(d, step.keep_first), add_first = hn::Set(d, 1 - step.keep_first);
  const auto keep_second = hn::Set(d, step.keep_second),
             add_second = hn::Set(d, 1 - step.keep_second);
  const auto rate = hn::Set(d, step.rate), of_second = hn::Set(d, step.of_second),
             floor = hn::Set(d, step.floor);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto given = hn::LoadU(d, move.slopes + i);
    const auto slope =
        hn::IfThenElseZero(hn::Eq(given, given), hn::Min(hn::Max(given, least), most));
    const auto first =
        hn::Add(hn::Mul(keep_first, hn::LoadU(d, move.firsts + i)), hn::Mul(add_first, slope));
    const auto second = hn::Add(hn::Mul(keep_second, hn::LoadU(d, move.seconds + i)),
                                hn::Mul(hn::Mul(add_second, slope), slope));
    hn::StoreU(first, d, move.firsts + i);
    hn::StoreU(second, d, move.seconds + i);
    const auto size = hn::Add(hn::Sqrt(hn::Mul(second, of_second)), floor);
    hn::StoreU(hn::Sub(hn::LoadU(d, move.values + i), hn::Div(hn::Mul(rate, first), size)), d,
               move.values + i);
  }
  return i;
}

}  // namespace HWY_NAMESPACE
}  // namespace moepack::runtime
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moepack::runtime {

HWY_EXPORT(MoveVectors);

namespace {

// The usual 0.9 and 0.999 average over too many steps for a descent of a few hundred.
constexpr float kFirstMoment = 0.8f, kSecondMoment = 0.9f, kStepFloor = 1e-9f;
// Sums that overflowed must not end up in the values, and squares must fit into floats.
constexpr float kMostSlope = 1e18f;

// Values that a thread moves at a time.
constexpr size_t kValuesOfPiece = 1 << 16;

AdamMove From(const AdamMove& move, size_t first) {
  return {move.slopes + first, move.firsts + first, move.seconds + first, move.values + first,
          move.step};
}

float ToFloat(double slope) {
  const double most = kMostSlope;
  return slope == slope ? static_cast<float>(std::clamp(slope, -most, most)) : 0.0f;
}

}  // namespace

double RootMeanSquare(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  return values.empty() ? 0 : std::sqrt(squares / static_cast<double>(values.size()));
}

void MoveValues(const AdamMove& move, size_t count) {
  const size_t done = HWY_DYNAMIC_DISPATCH(MoveVectors)(move, count);
  MoveValuesRef(From(move, done), count - done);
}

void MoveValuesRef(const AdamMove& move, size_t count) {
  for (size_t i = 0; i < count; ++i)
    MoveValue(move.step, move.slopes[i], move.firsts[i], move.seconds[i], move.values[i]);
}

AdamStep NthStep(double rate, uint32_t n) {
  // The means start from 0, so that they are too small at first.
  return {.rate = static_cast<float>(rate / (1 - std::pow(kFirstMoment, n))),
          .of_second = static_cast<float>(1 / (1 - std::pow(kSecondMoment, n))),
          .keep_first = kFirstMoment,
          .keep_second = kSecondMoment,
          .floor = kStepFloor,
          .most = kMostSlope};
}

Adam::Adam(size_t count, size_t jobs) : first_(count, 0), second_(count, 0), jobs_(jobs) {}

void Adam::Step(double rate, std::span<const double> gradient, std::span<float> values) {
  std::vector<float> slopes(gradient.size());
  std::transform(gradient.begin(), gradient.end(), slopes.begin(), ToFloat);
  Step(rate, slopes, values);
}

void Adam::Step(double rate, std::span<const float> gradient, std::span<float> values) {
  const AdamMove move = {gradient.data(), first_.data(), second_.data(), values.data(),
                         NthStep(rate, ++steps_)};
  ForPieces(values.size(), kValuesOfPiece, jobs_,
            [&](size_t begin, size_t end) { MoveValues(From(move, begin), end - begin); });
}

Batches::Batches(size_t rows, size_t size)
    : order_(rows), size_(std::min(rows, size)), next_(rows) {
  std::iota(order_.begin(), order_.end(), 0u);
}

std::vector<uint32_t> Batches::Next() {
  if (size_ == order_.size()) return order_;
  std::vector<uint32_t> batch;
  while (batch.size() < size_) {
    if (next_ == order_.size()) {
      SplitMix64(round_++).Shuffle(std::span(order_));
      next_ = 0;
    }
    batch.push_back(order_[next_++]);
  }
  return batch;
}

}  // namespace moepack::runtime
#endif
