#include "runtime-shim/cpu/row_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime-shim/cpu/row_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// after highway.h, which it uses
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace moepack::runtime {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V Splat(float value) { return hn::Set(D(), value); }

// The first `count` values, fewer than a vector has, then `rest`.
HWY_INLINE V LoadPart(const float* from, size_t count, float rest) {
  const D d;
  alignas(64) float lanes[HWY_LANES(float)];
  hn::Store(Splat(rest), d, lanes);
  std::copy_n(from, count, lanes);
  return hn::Load(d, lanes);
}

HWY_INLINE void StorePart(V vector, size_t count, float* to) {
  alignas(64) float lanes[HWY_LANES(float)];
  hn::Store(vector, D(), lanes);
  std::copy_n(lanes, count, to);
}

// Calls `whole(i)` for each vector's first value, then `part(i, count)` for the rest.
template <class Whole, class Part>
HWY_INLINE void ForEachVector(size_t size, const Whole& whole, const Part& part) {
  const size_t lanes = hn::Lanes(D());
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) whole(i);
  if (i < size) part(i, size - i);
}

// Highway's Exp turns NaN into 0, and is wrong if the result is not a finite float: the largest
// power is then as good, because it is only a divisor.
HWY_INLINE V ExpOf(V x) {
  const V most = Splat(88);
  const V power = hn::Exp(D(), hn::Min(x, most));
  return hn::IfThenElse(hn::Eq(x, x), power, x);
}

HWY_INLINE V SigmoidOf(V x) {
  const V one = Splat(1);
  return hn::Div(one, hn::Add(one, ExpOf(hn::Neg(x))));
}

struct SiluAct {
  V operator()(V gate, V up) const { return hn::Mul(hn::Mul(gate, SigmoidOf(gate)), up); }
};

// x / 2 * (1 + tanh(z)) = x * sigmoid(2 z), with the z of scalar_ops.cc.
struct GeluAct {
  V operator()(V gate, V up) const {
    const V cube = hn::Mul(hn::Mul(gate, gate), gate);
    const V z =
        hn::Mul(Splat(2 * 0.79788456080286535588f), hn::MulAdd(Splat(0.044715f), cube, gate));
    return hn::Mul(hn::Mul(gate, SigmoidOf(z)), up);
  }
};

// Comparisons with NaN are false and leave it unchanged.
struct ClampedSiluAct {
  V operator()(V gate, V up) const {
    const V high = Splat(7), low = Splat(-7);
    const V g = hn::IfThenElse(hn::Gt(gate, high), high, gate);
    const V u = hn::IfThenElse(hn::Gt(up, high), high, hn::IfThenElse(hn::Lt(up, low), low, up));
    return hn::Mul(hn::Mul(g, SigmoidOf(hn::Mul(Splat(1.702f), g))), hn::Add(u, Splat(1)));
  }
};

struct SigmoidAct {
  V operator()(V gate, V up) const { return hn::Mul(SigmoidOf(gate), up); }
};

struct SquaredReluAct {
  V operator()(V gate, V /*up*/) const {
    return hn::IfThenElse(hn::Lt(gate, Splat(0)), Splat(0), hn::Mul(gate, gate));
  }
};

struct LimitedSiluAct {
  float limit;
  V operator()(V gate, V up) const {
    const V high = Splat(limit), low = Splat(-limit);
    const V g = hn::Mul(gate, SigmoidOf(gate));
    const V u = hn::IfThenElse(hn::Gt(up, high), high, hn::IfThenElse(hn::Lt(up, low), low, up));
    return hn::Mul(hn::IfThenElse(hn::Gt(g, high), high, g), u);
  }
};

struct SiluOfLimitedAct {
  float limit;
  V operator()(V gate, V up) const {
    const V high = Splat(limit), low = Splat(-limit);
    const V g = hn::IfThenElse(hn::Gt(gate, high), high, gate);
    const V u = hn::IfThenElse(hn::Gt(up, high), high, hn::IfThenElse(hn::Lt(up, low), low, up));
    return hn::Mul(hn::Mul(g, SigmoidOf(g)), u);
  }
};

struct ReluAct {
  V operator()(V gate, V up) const {
    return hn::Mul(hn::IfThenElse(hn::Lt(gate, Splat(0)), Splat(0), gate), up);
  }
};

// Highway's Tanh, too, loses NaN.
HWY_INLINE V BoundedBy(V bound, V x) {
  const V bounded = hn::Mul(bound, hn::Tanh(D(), hn::Div(x, bound)));
  return hn::IfThenElse(hn::Eq(x, x), bounded, x);
}

struct SituAct {
  float limit, up_limit;
  V operator()(V gate, V up) const {
    const V g = hn::Mul(BoundedBy(Splat(limit), gate), SigmoidOf(gate));
    return hn::Mul(g, up_limit > 0 ? BoundedBy(Splat(up_limit), up) : up);
  }
};

template <class Act>
HWY_INLINE void ActivateAll(const Act& act, std::span<float> gate, std::span<const float> up) {
  const D d;
  ForEachVector(
      gate.size(),
      [&](size_t i) {
        hn::StoreU(act(hn::LoadU(d, gate.data() + i), hn::LoadU(d, up.data() + i)), d,
                   gate.data() + i);
      },
      [&](size_t i, size_t count) {
        const V result =
            act(LoadPart(gate.data() + i, count, 0), LoadPart(up.data() + i, count, 0));
        StorePart(result, count, gate.data() + i);
      });
}

void ActivateLanes(Activation activation, std::span<float> gate, std::span<const float> up) {
  switch (activation.kind) {
    case Activation::kSilu:
      return ActivateAll(SiluAct(), gate, up);
    case Activation::kGelu:
      return ActivateAll(GeluAct(), gate, up);
    case Activation::kClampedSilu:
      return ActivateAll(ClampedSiluAct(), gate, up);
    case Activation::kSigmoid:
      return ActivateAll(SigmoidAct(), gate, up);
    case Activation::kSquaredRelu:
      return ActivateAll(SquaredReluAct(), gate, up);
    case Activation::kLimitedSilu:
      return ActivateAll(LimitedSiluAct{activation.limit}, gate, up);
    case Activation::kRelu:
      return ActivateAll(ReluAct(), gate, up);
    case Activation::kSiluOfLimited:
      return ActivateAll(SiluOfLimitedAct{activation.limit}, gate, up);
    case Activation::kSitu:
      return ActivateAll(SituAct{activation.limit, activation.up_limit}, gate, up);
  }
}

// Two sums side by side: a single one would wait for the latency of each addition.
HWY_INLINE float SumOfSquares(std::span<const float> x) {
  const D d;
  V even = hn::Zero(d), odd = hn::Zero(d);
  ForEachVector(
      x.size(),
      [&](size_t i) {
        const V v = hn::LoadU(d, x.data() + i);
        const V next = hn::MulAdd(v, v, even);
        even = odd;
        odd = next;
      },
      [&](size_t i, size_t count) {
        const V v = LoadPart(x.data() + i, count, 0);
        even = hn::MulAdd(v, v, even);
      });
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
}

void NormLanes(std::span<const float> x, const NormVectors& norm, std::span<float> y) {
  const D d;
  const float mean = SumOfSquares(x) / static_cast<float>(x.size());
  const V factor = Splat(1 / std::sqrt(mean + norm.eps));
  const auto normed = [&](V value, V weight, V bias) {
    return hn::MulAdd(hn::Mul(value, factor), weight, bias);
  };
  const auto load = [&](std::span<const float> vector, size_t i, float missing) {
    return vector.empty() ? Splat(missing) : hn::LoadU(d, vector.data() + i);
  };
  const auto load_part = [&](std::span<const float> vector, size_t i, size_t count, float missing) {
    return vector.empty() ? Splat(missing) : LoadPart(vector.data() + i, count, missing);
  };
  ForEachVector(
      x.size(),
      [&](size_t i) {
        hn::StoreU(
            normed(hn::LoadU(d, x.data() + i), load(norm.weight, i, 1), load(norm.bias, i, 0)), d,
            y.data() + i);
      },
      [&](size_t i, size_t count) {
        StorePart(normed(LoadPart(x.data() + i, count, 0), load_part(norm.weight, i, count, 1),
                         load_part(norm.bias, i, count, 0)),
                  count, y.data() + i);
      });
}

void SoftmaxLanes(std::span<float> scores, float scale, float sink) {
  const D d;
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  const V scales = Splat(scale);
  V most = Splat(sink);
  ForEachVector(
      scores.size(),
      [&](size_t i) {
        const V scaled = hn::Mul(hn::LoadU(d, scores.data() + i), scales);
        hn::StoreU(scaled, d, scores.data() + i);
        most = hn::Max(most, scaled);
      },
      [&](size_t i, size_t count) {
        const V scaled = hn::Mul(LoadPart(scores.data() + i, count, kLeast), scales);
        StorePart(scaled, count, scores.data() + i);
        most = hn::Max(most, scaled);
      });
  const float largest = hn::GetLane(hn::MaxOfLanes(d, most));
  const V peak = Splat(largest);
  V sums = hn::Zero(d);
  ForEachVector(
      scores.size(),
      [&](size_t i) {
        const V value = ExpOf(hn::Sub(hn::LoadU(d, scores.data() + i), peak));
        hn::StoreU(value, d, scores.data() + i);
        sums = hn::Add(sums, value);
      },
      [&](size_t i, size_t count) {
        const V value = ExpOf(hn::Sub(LoadPart(scores.data() + i, count, kLeast), peak));
        StorePart(value, count, scores.data() + i);
        sums = hn::Add(sums, value);
      });
  const float sum = hn::GetLane(hn::SumOfLanes(d, sums)) + std::exp(sink - largest);
  const V share = Splat(1 / sum);
  ForEachVector(
      scores.size(),
      [&](size_t i) {
        hn::StoreU(hn::Mul(hn::LoadU(d, scores.data() + i), share), d, scores.data() + i);
      },
      [&](size_t i, size_t count) {
        for (size_t j = i; j < i + count; ++j) scores[j] *= 1 / sum;
      });
}

void AddLanes(std::span<float> x, std::span<const float> y, float factor) {
  const D d;
  const V factors = Splat(factor);
  ForEachVector(
      x.size(),
      [&](size_t i) {
        hn::StoreU(hn::MulAdd(factors, hn::LoadU(d, y.data() + i), hn::LoadU(d, x.data() + i)), d,
                   x.data() + i);
      },
      [&](size_t i, size_t count) {
        const V sum =
            hn::MulAdd(factors, LoadPart(y.data() + i, count, 0), LoadPart(x.data() + i, count, 0));
        StorePart(sum, count, x.data() + i);
      });
}

RowSize SizeLanes(std::span<const float> row) {
  const D d;
  V peaks = hn::Zero(d);
  ForEachVector(
      row.size(), [&](size_t i) { peaks = hn::Max(peaks, hn::Abs(hn::LoadU(d, row.data() + i))); },
      [&](size_t i, size_t count) {
        peaks = hn::Max(peaks, hn::Abs(LoadPart(row.data() + i, count, 0)));
      });
  const float peak = hn::GetLane(hn::MaxOfLanes(d, peaks));
  return {std::sqrt(SumOfSquares(row)), peak};
}

// Heads [head, head + kHeads), columns [column, column + kVectors vectors).
template <size_t kHeads, size_t kVectors>
HWY_INLINE void AddWeightedBlock(const WeightedSum& sum, size_t head, size_t column) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const float* const weights = sum.weights + head * sum.count;
  const float* values = sum.values + column;
  V sums[kHeads * kVectors];
  for (V& vector : sums) vector = hn::Zero(d);
  for (size_t j = 0; j < sum.count; ++j, values += sum.stride) {
    V row[kVectors];
    for (size_t v = 0; v < kVectors; ++v) row[v] = hn::LoadU(d, values + v * lanes);
    for (size_t h = 0; h < kHeads; ++h) {
      const V weight = Splat(weights[h * sum.count + j]);
      for (size_t v = 0; v < kVectors; ++v)
        sums[h * kVectors + v] = hn::MulAdd(weight, row[v], sums[h * kVectors + v]);
    }
  }
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t v = 0; v < kVectors; ++v)
      hn::StoreU(sums[h * kVectors + v], d, sum.out + (head + h) * sum.width + column + v * lanes);
  }
}

template <size_t kHeads>
HWY_INLINE void AddWeightedHeads(const WeightedSum& sum, size_t head) {
  constexpr size_t kVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
  const size_t lanes = hn::Lanes(D());
  size_t column = 0;
  for (; column + kVectors * lanes <= sum.width; column += kVectors * lanes)
    AddWeightedBlock<kHeads, kVectors>(sum, head, column);
  for (; column + lanes <= sum.width; column += lanes)
    AddWeightedBlock<kHeads, 1>(sum, head, column);
  for (; column < sum.width; ++column) {
    for (size_t h = head; h < head + kHeads; ++h) {
      float total = 0;
      for (size_t j = 0; j < sum.count; ++j)
        total += sum.weights[h * sum.count + j] * sum.values[j * sum.stride + column];
      sum.out[h * sum.width + column] = total;
    }
  }
}

void AddWeightedLanes(const WeightedSum& sum) {
  size_t head = 0;
  for (; head + 4 <= sum.heads; head += 4) AddWeightedHeads<4>(sum, head);
  for (; head < sum.heads; ++head) AddWeightedHeads<1>(sum, head);
}

}  // namespace HWY_NAMESPACE
}  // namespace moepack::runtime
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moepack::runtime {

HWY_EXPORT(ActivateLanes);
HWY_EXPORT(NormLanes);
HWY_EXPORT(SoftmaxLanes);
HWY_EXPORT(AddLanes);
HWY_EXPORT(SizeLanes);
HWY_EXPORT(AddWeightedLanes);

void ActivateFast(Activation activation, std::span<float> gate, std::span<const float> up) {
  HWY_DYNAMIC_DISPATCH(ActivateLanes)(activation, gate, up);
}
void NormFast(std::span<const float> x, const NormVectors& norm, std::span<float> y) {
  HWY_DYNAMIC_DISPATCH(NormLanes)(x, norm, y);
}
void SoftmaxFast(std::span<float> scores, float scale, float sink) {
  HWY_DYNAMIC_DISPATCH(SoftmaxLanes)(scores, scale, sink);
}
void AddFast(std::span<float> x, std::span<const float> y, float factor) {
  HWY_DYNAMIC_DISPATCH(AddLanes)(x, y, factor);
}
RowSize SizeOf(std::span<const float> row) { return HWY_DYNAMIC_DISPATCH(SizeLanes)(row); }
void AddWeighted(const WeightedSum& sum) { HWY_DYNAMIC_DISPATCH(AddWeightedLanes)(sum); }

}  // namespace moepack::runtime
#endif
