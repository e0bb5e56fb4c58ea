#include "runtime-shim/reference/scalar_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime-shim/reference/host_executor.h"

namespace moepack::runtime {
namespace {

double Silu(double x) { return x * Sigmoid(x); }

// The tanh form (1606.08415): x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
double Gelu(double x) {
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  return 0.5 * x * (1 + std::tanh(kSqrtTwoOverPi * (x + 0.044715 * x * x * x)));
}

// std::min and std::clamp return their first argument if it is NaN.
double ClampedSilu(double gate, double up) {
  const double g = std::min(gate, 7.0);
  const double u = std::clamp(up, -7.0, 7.0);
  return g * Sigmoid(1.702 * g) * (u + 1);
}

double LimitedSilu(double gate, double up, double limit) {
  return std::min(Silu(gate), limit) * std::clamp(up, -limit, limit);
}

double SiluOfLimited(double gate, double up, double limit) {
  return Silu(std::min(gate, limit)) * std::clamp(up, -limit, limit);
}

// Sources: Kimi-K3's modeling code; llama.cpp's src/models/kimi-k3.cpp.
double Bounded(double x, double bound) { return bound * std::tanh(x / bound); }

double Situ(double gate, double up, Activation activation) {
  const double own = activation.up_limit > 0 ? Bounded(up, activation.up_limit) : up;
  return Bounded(gate, activation.limit) * Sigmoid(gate) * own;
}

double Activated(Activation activation, double gate, double up) {
  switch (activation.kind) {
    case Activation::kSilu:
      return Silu(gate) * up;
    case Activation::kGelu:
      return Gelu(gate) * up;
    case Activation::kClampedSilu:
      return ClampedSilu(gate, up);
    case Activation::kSigmoid:
      return Sigmoid(gate) * up;
    case Activation::kSquaredRelu:
      return gate < 0 ? 0 : gate * gate;  // keeps NaN
    case Activation::kLimitedSilu:
      return LimitedSilu(gate, up, activation.limit);
    case Activation::kRelu:
      return std::max(gate, 0.0) * up;
    case Activation::kSiluOfLimited:
      return SiluOfLimited(gate, up, activation.limit);
    case Activation::kSitu:
      return Situ(gate, up, activation);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// Turns `scores` into the weights of a softmax in which `sink` takes part without a value.
void Softmax(std::vector<double>& scores, double sink) {
  const double largest = std::max(*std::max_element(scores.begin(), scores.end()), sink);
  double sum = std::exp(sink - largest);
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
}

}  // namespace

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void AddRow(std::span<float> x, std::span<const float> y, double scale) {
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(x[i] + scale * y[i]);
}

void ScaleRow(std::span<float> x, double factor) {
  for (float& value : x) value = static_cast<float>(value * factor);
}

void NormRow(std::span<const float> x, const NormVectors& norm, std::span<float> y) {
  const double mean = Dot(x, x) / static_cast<double>(x.size());
  const double factor = 1 / std::sqrt(mean + norm.eps);
  for (size_t i = 0; i < x.size(); ++i) {
    double value = x[i] * factor;
    if (!norm.weight.empty()) value *= norm.weight[i];
    if (!norm.bias.empty()) value += norm.bias[i];
    y[i] = static_cast<float>(value);
  }
}

void MeasureRow(std::span<const float> x, std::span<float> size) {
  float largest = 0;
  for (const float value : x) largest = std::max(largest, std::abs(value));
  size[0] = static_cast<float>(std::sqrt(Dot(x, x)));
  size[1] = largest;
}

void ActivateRow(Activation activation, std::span<float> gate, std::span<const float> up) {
  for (size_t i = 0; i < gate.size(); ++i)
    gate[i] = static_cast<float>(Activated(activation, gate[i], up[i]));
}

void RotateRow(std::span<float> x, const Rotation& rotation, std::span<const float> turns) {
  const uint32_t half = rotation.dims / 2;
  const bool halves = rotation.pairing == Pairing::kHalves;
  for (uint32_t head = 0; head < rotation.heads; ++head) {
    const auto part = x.subspan(size_t{head} * rotation.head_width + rotation.first, rotation.dims);
    for (uint32_t i = 0; i < half; ++i) {
      float& a = part[halves ? i : 2 * i];
      float& b = part[halves ? i + half : 2 * i + 1];
      const double cosine = turns[i], sine = turns[half + i], a_before = a, b_before = b;
      a = static_cast<float>(a_before * cosine - b_before * sine);
      b = static_cast<float>(a_before * sine + b_before * cosine);
    }
  }
}

uint32_t FirstSeen(const AttentionShape& shape, uint32_t position) {
  uint32_t first = 0;
  if (shape.window != 0 && position >= shape.window) first = position - shape.window + 1;
  if (shape.chunk != 0) first = std::max(first, position / shape.chunk * shape.chunk);
  return first;
}

void AttendHead(const AttentionShape& shape, const HeadInputs& inputs, std::span<const float> query,
                std::span<float> out) {
  const uint32_t key_head = inputs.head / (shape.heads / shape.key_heads);
  const auto head_query = query.subspan(size_t{inputs.head} * shape.key_width, shape.key_width);
  const Rows keys = inputs.keys.Columns(key_head * shape.key_width, shape.key_width);
  const Rows values = inputs.values.Columns(key_head * shape.value_width, shape.value_width);

  const uint32_t first = FirstSeen(shape, inputs.position);
  std::vector<double> weights;
  for (uint32_t j = first; j <= inputs.position; ++j)
    weights.push_back(Dot(head_query, RowOf(keys, j)) * shape.scale);
  Softmax(weights, inputs.sinks.empty() ? -std::numeric_limits<double>::infinity()
                                        : double{inputs.sinks[inputs.head]});

  std::vector<double> sums(shape.value_width);
  for (size_t j = 0; j < weights.size(); ++j) {
    const auto value = RowOf(values, first + static_cast<uint32_t>(j));
    for (uint32_t c = 0; c < shape.value_width; ++c) sums[c] += weights[j] * value[c];
  }
  for (uint32_t c = 0; c < shape.value_width; ++c)
    out[size_t{inputs.head} * shape.value_width + c] = static_cast<float>(sums[c]);
}

}  // namespace moepack::runtime
