#include "runtime-shim/refit/tuned_expert.h"

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

TunedExpert::TunedExpert(NodeLayer& node, size_t place, bool changes, size_t jobs)
    : node_(node),
      place_(place),
      changes_(changes),
      gate_(Part(&RefittedExperts::gate), jobs),
      up_(Part(&RefittedExperts::up), jobs),
      down_(Part(&RefittedExperts::down), jobs),
      gate_bias_(Part(&RefittedExperts::gate_bias), jobs),
      up_bias_(Part(&RefittedExperts::up_bias), jobs),
      down_bias_(Part(&RefittedExperts::down_bias), jobs) {}

// The expert's part of an array, empty if it does not change.
std::span<float> TunedExpert::Part(std::vector<float> RefittedExperts::*array) const {
  std::vector<float>& values = node_.experts.*array;
  if (!changes_) return {};
  const size_t one = values.size() / node_.experts.expert_ids.size();
  return std::span(values).subspan(place_ * one, one);
}

std::span<float> TunedExpert::Inputs(size_t tokens) {
  inputs_.resize(tokens * node_.experts.hidden);
  return inputs_;
}

Status TunedExpert::Run(TunedScratch& scratch) {
  Products& products = scratch.products;
  const size_t tokens = inputs_.size() / node_.experts.hidden, width = node_.experts.width;
  SHARD_TRY(const NodeMatrices matrices, LoadExpert(node_.experts, place_, products.executor()));
  const MlpWeights& expert = matrices.experts.front();
  first_slopes_.resize(tokens * width);
  second_slopes_.resize(gated() ? tokens * width : 0);
  activations_.resize(tokens * width);
  SHARD_CHECK(products.Apply(expert.first(), inputs_, first_slopes_));
  if (gated()) SHARD_CHECK(products.Apply(expert.up, inputs_, second_slopes_));
  ForPieces(tokens, RowsWorthAThread(width), products.jobs(), [&](size_t begin, size_t end) {
    const size_t first = begin * width, count = (end - begin) * width;
    ActivateWithSlopes(
        node_.form.activation, std::span(first_slopes_).subspan(first, count),
        gated() ? std::span(second_slopes_).subspan(first, count) : std::span<float>(),
        std::span(activations_).subspan(first, count));
  });
  outputs_.resize(inputs_.size());
  return products.Apply(expert.down, activations_, outputs_);
}

Result<std::vector<double>> TunedExpert::Back(std::span<const float> factors, double rate,
                                              TunedScratch& scratch) {
  const RefittedExperts& all = node_.experts;
  const size_t tokens = factors.size(), hidden = all.hidden, width = all.width;
  const size_t jobs = scratch.products.jobs();
  const std::span<float> by_sum = outputs_;
  scratch.by_activation.resize(tokens * width);
  const std::span<float> by_activation = scratch.by_activation;
  const auto down = std::span(all.down).subspan(place_ * hidden * width, hidden * width);
  SHARD_CHECK(scratch.products.MultiplyBy({down, width}, by_sum, by_activation));
  // r.o = r.(W a + c) = (W'r).a + r.c, so that the gradient may take the place of the outputs.
  std::vector<double> by_factor(tokens);
  const auto bias = all.down_bias.empty()
                        ? std::span<const float>()
                        : std::span(all.down_bias).subspan(place_ * hidden, hidden);
  ForPieces(tokens, RowsWorthAThread(width), jobs, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      by_factor[i] = DotOf(by_activation.subspan(i * width, width),
                           std::span(activations_).subspan(i * width, width));
      if (!bias.empty()) by_factor[i] += DotOf(by_sum.subspan(i * hidden, hidden), bias);
    }
  });
  if (changes_) {
    ScaleRows(factors, jobs, by_sum);
    ScaleRows(factors, jobs, by_activation);
    SHARD_CHECK(Move({rate, scratch}));
  }
  return by_factor;
}

Status TunedExpert::Move(const Movement& movement) {
  const size_t hidden = node_.experts.hidden, width = node_.experts.width;
  SHARD_CHECK(MoveLinear(down_, down_bias_, {outputs_, hidden}, {activations_, width}, movement));
  // dL/d(projection) = dL/da * da/d(projection)
  const std::span<const float> by_activation = movement.scratch.by_activation;
  ForPieces(by_activation.size() / width, RowsWorthAThread(width), movement.scratch.products.jobs(),
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
  std::vector<float>& gradient = movement.scratch.by_matrix;
  gradient.resize(left.columns * right.columns);
  SHARD_CHECK(movement.scratch.products.Product(left, right, gradient));
  weight.Step(movement.rate, std::span<const float>(gradient));
  if (bias.empty()) return Ok();
  std::vector<double> sums(left.columns, 0);
  for (size_t i = 0; i < left.values.size(); ++i) sums[i % left.columns] += left.values[i];
  bias.Step(movement.rate, std::span<const double>(sums));
  return Ok();
}

}  // namespace moepack::runtime
