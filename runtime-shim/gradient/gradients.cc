#include "runtime-shim/gradient/gradients.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "runtime-shim/executor/gradient_formulas.h"

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

void ActivateWithSlopes(Activation activation, std::span<float> gate, std::span<float> up,
                        std::span<float> out) {
  for (size_t i = 0; i < gate.size(); ++i)
    out[i] = ActivateSloped(activation, gate[i], up.empty() ? nullptr : &up[i]);
}

}  // namespace moepack::runtime
