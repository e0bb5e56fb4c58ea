#include "runtime-shim/gradient/gradients.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace moepack::runtime {
namespace {

std::vector<double> SoftmaxOf(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> values;
  double sum = 0;
  for (const float logit : logits) {
    values.push_back(std::exp(double{logit} - largest));
    sum += values.back();
  }
  for (double& value : values) value /= sum;
  return values;
}

double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }

// Gradients of a softmax with respect to its logits, from those with respect to its values.
std::vector<double> ThroughSoftmax(std::span<const double> values,
                                   std::span<const double> gradient) {
  // With p = softmax(z): dL/dz_i = p_i (g_i - sum of p_j g_j), where g is dL/dp.
  double mean = 0;
  for (size_t i = 0; i < values.size(); ++i) mean += values[i] * gradient[i];
  std::vector<double> out;
  for (size_t i = 0; i < values.size(); ++i) out.push_back(values[i] * (gradient[i] - mean));
  return out;
}

// A function of each logit alone: its value and its slope.
struct ValueAndSlope {
  double value = 0, slope = 0;
};
ValueAndSlope ApplyGate(Gating gating, double logit) {
  const double sigmoid = SigmoidOf(logit);
  if (gating != Gating::kSqrtSoftplus) return {sigmoid, sigmoid * (1 - sigmoid)};
  // softplus(x) = max(x, 0) + log(1 + exp(-|x|)), the form in which exp does not overflow.
  const double value = std::sqrt(std::max(logit, 0.0) + std::log1p(std::exp(-std::abs(logit))));
  // The slope of softplus is the sigmoid, and that of a square root is 1 / (2 * root).
  return {value, value > 0 ? sigmoid / (2 * value) : 0};
}

// The chosen weights before they are normalised.
struct RawWeights {
  std::vector<double> all;  // softmax: of all eligible, or of the chosen
  std::vector<double> chosen, slopes;
};

bool IsSoftmax(Gating gating) {
  return gating == Gating::kSoftmax || gating == Gating::kSoftmaxAfterTopK;
}

RawWeights WeighChosen(const Routing& routing, std::span<const float> logits,
                       std::span<const uint32_t> chosen) {
  RawWeights raw;
  if (routing.gating == Gating::kSoftmax) {
    raw.all = SoftmaxOf(logits);
    for (const uint32_t place : chosen) raw.chosen.push_back(raw.all[place]);
  } else if (routing.gating == Gating::kSoftmaxAfterTopK) {
    std::vector<float> own;
    for (const uint32_t place : chosen) own.push_back(logits[place]);
    raw.chosen = raw.all = SoftmaxOf(own);
  } else {
    for (const uint32_t place : chosen) {
      const ValueAndSlope gate = ApplyGate(routing.gating, logits[place]);
      raw.chosen.push_back(gate.value);
      raw.slopes.push_back(gate.slope);
    }
  }
  return raw;
}

// Back through w = scale * u / sum of u, or w = scale * u.
std::vector<double> ThroughNormalising(const Routing& routing, std::span<const double> raw,
                                       std::span<const double> by_weight) {
  const double scale = ScaleOf(routing);
  double sum = 0, mean = 0;
  for (const double value : raw) sum += value;
  std::vector<double> out;
  if (!routing.normalize || sum <= 0) {
    for (const double gradient : by_weight) out.push_back(scale * gradient);
    return out;
  }
  // dL/du_i = scale / S * (g_i - sum of g_j u_j / S) with S the sum of u: raising one value lowers
  // the weights of all others.
  for (size_t i = 0; i < raw.size(); ++i) mean += by_weight[i] * raw[i] / sum;
  for (const double gradient : by_weight) out.push_back(scale * (gradient - mean) / sum);
  return out;
}

}  // namespace

std::vector<double> GateGradient(const Routing& routing, std::span<const float> logits,
                                 std::span<const uint32_t> chosen,
                                 std::span<const double> by_weight) {
  const RawWeights raw = WeighChosen(routing, logits, chosen);
  const std::vector<double> by_raw = ThroughNormalising(routing, raw.chosen, by_weight);
  std::vector<double> gradient(logits.size(), 0);
  for (size_t i = 0; i < chosen.size(); ++i) gradient[chosen[i]] = by_raw[i];
  if (routing.gating == Gating::kSoftmax) return ThroughSoftmax(raw.all, gradient);
  const std::vector<double> own =
      IsSoftmax(routing.gating) ? ThroughSoftmax(raw.all, by_raw) : std::vector<double>();
  for (size_t i = 0; i < chosen.size(); ++i)
    gradient[chosen[i]] = own.empty() ? by_raw[i] * raw.slopes[i] : own[i];
  return gradient;
}

namespace {

// A function of one value, and its derivative there.
struct Sloped {
  float value = 0, slope = 0;
};

Sloped SigmoidAt(float x) {
  const float value = 1 / (1 + std::exp(-x));
  return {value, value * (1 - value)};
}

// x * sigmoid(factor * x)
Sloped SiluAt(float x, float factor) {
  const Sloped gate = SigmoidAt(factor * x);
  return {x * gate.value, gate.value + factor * x * gate.slope};
}

// The tanh form, as in reference/scalar_ops.cc: x / 2 * (1 + t), t = tanh(c (x + 0.044715 x^3)).
// dt/dx = c (1 + 3 * 0.044715 x^2) (1 - t^2).
Sloped GeluAt(float x) {
  constexpr float kSqrtTwoOverPi = 0.797884560802865f, kCubic = 0.044715f;
  const float t = std::tanh(kSqrtTwoOverPi * (x + kCubic * x * x * x));
  const float by_x = kSqrtTwoOverPi * (1 + 3 * kCubic * x * x) * (1 - t * t);
  return {0.5f * x * (1 + t), 0.5f * (1 + t) + 0.5f * x * by_x};
}

Sloped ClampAt(float x, float low, float high) {
  return {std::clamp(x, low, high), x < low || x > high ? 0.0f : 1.0f};
}

// gate_of(gate) * up_of(up), by the product rule.
template <class GateOf, class UpOf>
void Multiply(std::span<float> gate, std::span<float> up, std::span<float> out,
              const GateOf& gate_of, const UpOf& up_of) {
  for (size_t i = 0; i < gate.size(); ++i) {
    const Sloped left = gate_of(gate[i]), right = up_of(up[i]);
    out[i] = left.value * right.value;
    gate[i] = left.slope * right.value;
    up[i] = left.value * right.slope;
  }
}

Sloped Identity(float x) { return {x, 1}; }

Sloped ReluAt(float x) { return {std::max(x, 0.0f), x > 0 ? 1.0f : 0.0f}; }

// gpt-oss: g = min(gate, 7), u = clamp(up, -7, 7); g * sigmoid(1.702 g) * (u + 1)
Sloped ClampedGate(float x) {
  constexpr float kMost = 7, kFactor = 1.702f;
  Sloped at = SiluAt(std::min(x, kMost), kFactor);
  if (x > kMost) at.slope = 0;
  return at;
}
Sloped ClampedUp(float x) {
  Sloped at = ClampAt(x, -7, 7);
  at.value += 1;
  return at;
}

void SquaredRelu(std::span<float> gate, std::span<float> up, std::span<float> out) {
  std::fill(up.begin(), up.end(), 0.0f);  // nothing depends on it
  for (size_t i = 0; i < gate.size(); ++i) {
    const float positive = std::max(gate[i], 0.0f);
    out[i] = positive * positive;
    gate[i] = 2 * positive;
  }
}

void LimitedSilu(float limit, std::span<float> gate, std::span<float> up, std::span<float> out) {
  Multiply(
      gate, up, out,
      [limit](float x) {
        const Sloped silu = SiluAt(x, 1);
        return silu.value > limit ? Sloped{limit, 0} : silu;
      },
      [limit](float x) { return ClampAt(x, -limit, limit); });
}

void SiluOfLimited(float limit, std::span<float> gate, std::span<float> up, std::span<float> out) {
  Multiply(
      gate, up, out,
      [limit](float x) {
        return x > limit ? Sloped{SiluAt(limit, 1).value, 0} : SiluAt(x, 1);
      },
      [limit](float x) { return ClampAt(x, -limit, limit); });
}

Sloped BoundedAt(float x, float bound) {
  const float t = std::tanh(x / bound);
  return {bound * t, 1 - t * t};
}

void Situ(Activation activation, std::span<float> gate, std::span<float> up, std::span<float> out) {
  Multiply(
      gate, up, out,
      [&](float x) {
        const Sloped bounded = BoundedAt(x, activation.limit), share = SigmoidAt(x);
        return Sloped{bounded.value * share.value,
                      bounded.slope * share.value + bounded.value * share.slope};
      },
      [&](float x) {
        return activation.up_limit > 0 ? BoundedAt(x, activation.up_limit) : Identity(x);
      });
}

}  // namespace

void ActivateWithSlopes(Activation activation, std::span<float> gate, std::span<float> up,
                        std::span<float> out) {
  switch (activation.kind) {
    case Activation::kSilu:
      return Multiply(
          gate, up, out, [](float x) { return SiluAt(x, 1); }, Identity);
    case Activation::kGelu:
      return Multiply(gate, up, out, GeluAt, Identity);
    case Activation::kClampedSilu:
      return Multiply(gate, up, out, ClampedGate, ClampedUp);
    case Activation::kSigmoid:
      return Multiply(gate, up, out, SigmoidAt, Identity);
    case Activation::kSquaredRelu:
      return SquaredRelu(gate, up, out);
    case Activation::kLimitedSilu:
      return LimitedSilu(activation.limit, gate, up, out);
    case Activation::kRelu:
      return Multiply(gate, up, out, ReluAt, Identity);
    case Activation::kSiluOfLimited:
      return SiluOfLimited(activation.limit, gate, up, out);
    case Activation::kSitu:
      return Situ(activation, gate, up, out);
  }
}

}  // namespace moepack::runtime
