#include "runtime-shim/refit/tuned_expert.h"

#include <utility>

#include "libshard/base/parallel.h"
#include "runtime-shim/gradient/gradients.h"

namespace moepack::runtime {
namespace {

double DotOf(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

}  // namespace

TunedArray::TunedArray(std::span<float> values, size_t jobs)
    : values_(values), rate_(values), adam_(values.size(), jobs) {}

void TunedArray::Step(double share, std::span<const float> gradient) {
  adam_.Step(rate_.Of(share), gradient, values_);
}

void TunedArray::Step(double share, std::span<const double> gradient) {
  adam_.Step(rate_.Of(share), gradient, values_);
}

TunedExpert::TunedExpert(Products& products, NodeLayer& node, size_t place, bool changes)
    : products_(products),
      node_(node),
      place_(place),
      changes_(changes),
      gate_(Part(&RefittedExperts::gate), products.jobs()),
      up_(Part(&RefittedExperts::up), products.jobs()),
      down_(Part(&RefittedExperts::down), products.jobs()),
      gate_bias_(Part(&RefittedExperts::gate_bias), products.jobs()),
      up_bias_(Part(&RefittedExperts::up_bias), products.jobs()),
      down_bias_(Part(&RefittedExperts::down_bias), products.jobs()) {}

// The expert's part of an array, empty if it does not change.
std::span<float> TunedExpert::Part(std::vector<float> RefittedExperts::*array) const {
  std::vector<float>& values = node_.experts.*array;
  if (!changes_) return {};
  const size_t one = values.size() / node_.experts.expert_ids.size();
  return std::span(values).subspan(place_ * one, one);
}

Status TunedExpert::Run(std::vector<float> inputs, std::span<float> outputs) {
  inputs_ = std::move(inputs);
  const size_t tokens = inputs_.size() / node_.experts.hidden, width = node_.experts.width;
  SHARD_TRY(const NodeMatrices matrices, LoadExpert(node_.experts, place_, products_.executor()));
  const MlpWeights& expert = matrices.experts.front();
  first_slopes_.resize(tokens * width);
  second_slopes_.resize(gated() ? tokens * width : 0);
  activations_.resize(tokens * width);
  SHARD_CHECK(products_.Apply(expert.first(), inputs_, first_slopes_));
  if (gated()) SHARD_CHECK(products_.Apply(expert.up, inputs_, second_slopes_));
  ForPieces(tokens, RowsWorthAThread(width), products_.jobs(), [&](size_t begin, size_t end) {
    const size_t first = begin * width, count = (end - begin) * width;
    ActivateWithSlopes(
        node_.form.activation, std::span(first_slopes_).subspan(first, count),
        gated() ? std::span(second_slopes_).subspan(first, count) : std::span<float>(),
        std::span(activations_).subspan(first, count));
  });
  return products_.Apply(expert.down, activations_, outputs);
}

Result<std::vector<double>> TunedExpert::Back(std::vector<float> by_sum,
                                              std::span<const float> factors, double rate,
                                              std::vector<float>& scratch) {
  const RefittedExperts& all = node_.experts;
  const size_t tokens = factors.size(), hidden = all.hidden, width = all.width;
  std::vector<float> by_activation(tokens * width);
  const auto down = std::span(all.down).subspan(place_ * hidden * width, hidden * width);
  SHARD_CHECK(products_.MultiplyBy({down, width}, by_sum, by_activation));
  // r.o = r.(W a + c) = (W'r).a + r.c, so that outputs need not be kept.
  std::vector<double> by_factor(tokens);
  const auto bias = all.down_bias.empty()
                        ? std::span<const float>()
                        : std::span(all.down_bias).subspan(place_ * hidden, hidden);
  ForPieces(tokens, RowsWorthAThread(width), products_.jobs(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      by_factor[i] = DotOf(std::span(by_activation).subspan(i * width, width),
                           std::span(activations_).subspan(i * width, width));
      if (!bias.empty()) by_factor[i] += DotOf(std::span(by_sum).subspan(i * hidden, hidden), bias);
    }
  });
  if (changes_) {
    ScaleRows(factors, products_.jobs(), by_sum);
    ScaleRows(factors, products_.jobs(), by_activation);
    SHARD_CHECK(Move(by_sum, by_activation, {rate, scratch}));
  }
  return by_factor;
}

Status TunedExpert::Move(std::span<float> by_sum, std::span<float> by_activation,
                         const Movement& movement) {
  const size_t hidden = node_.experts.hidden, width = node_.experts.width;
  SHARD_CHECK(MoveLinear(down_, down_bias_, {by_sum, hidden}, {activations_, width}, movement));
  // dL/d(projection) = dL/da * da/d(projection)
  ForPieces(by_activation.size() / width, RowsWorthAThread(width), products_.jobs(),
            [&](size_t begin, size_t end) {
              for (size_t i = begin * width; i < end * width; ++i) {
                first_slopes_[i] *= by_activation[i];
                if (gated()) second_slopes_[i] *= by_activation[i];
              }
            });
  const FloatTable inputs = {inputs_, hidden};
  SHARD_CHECK(MoveLinear(gated() ? gate_ : up_, gated() ? gate_bias_ : up_bias_,
                         {first_slopes_, width}, inputs, movement));
  if (!gated()) return Ok();
  return MoveLinear(up_, up_bias_, {second_slopes_, width}, inputs, movement);
}

Status TunedExpert::MoveLinear(TunedArray& weight, TunedArray& bias, const FloatTable& left,
                               const FloatTable& right, const Movement& movement) {
  movement.scratch.resize(left.columns * right.columns);
  SHARD_CHECK(products_.Product(left, right, movement.scratch));
  weight.Step(movement.rate, std::span<const float>(movement.scratch));
  if (bias.empty()) return Ok();
  std::vector<double> sums(left.columns, 0);
  for (size_t i = 0; i < left.values.size(); ++i) sums[i % left.columns] += left.values[i];
  bias.Step(movement.rate, std::span<const double>(sums));
  return Ok();
}

}  // namespace moepack::runtime
