// The reference against numbers worked out by hand, because all others are compared with it.
#include "runtime-shim/reference/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace moepack::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
using ReferenceFloats = std::vector<float>;

class Reference : public ::testing::Test {
 protected:
  Rows Put(const ReferenceFloats& values, uint32_t width) {
    const auto count = static_cast<uint32_t>(values.size()) / width;
    buffers_.push_back(*executor_.Allocate(values.size() * sizeof(float)));
    const Rows rows = {buffers_.back().get(), 0, count, width, width};
    executor_.Write(values, rows);
    return rows;
  }
  // Borrows `values`.
  Matrix Weights(const ReferenceFloats& values, uint32_t rows) {
    buffers_.push_back(*executor_.Load(std::as_bytes(std::span(values))));
    return {buffers_.back().get(), 0, quant::FindFormat("f32"), rows,
            static_cast<uint32_t>(values.size()) / rows};
  }
  ReferenceFloats Get(const Rows& rows) {
    ReferenceFloats values(size_t{rows.count} * rows.width);
    EXPECT_TRUE(executor_.Read(rows, values).has_value());
    return values;
  }

  ReferenceExecutor executor_;
  std::vector<BufferPtr> buffers_;
};

TEST_F(Reference, MultipliesEachTokenWithEachRow) {
  const ReferenceFloats weights = {1, 2, 3, 4, 5, 6};
  const Rows x = Put({1, 0, 1, 10, 1, 0}, 3), y = Put(ReferenceFloats(4), 2);
  executor_.MatMul(Weights(weights, 2), x, y);
  EXPECT_THAT(Get(y), ElementsAre(4, 10, 12, 45));
}

TEST_F(Reference, SumsInDouble) {
  const ReferenceFloats weights = {1e8f, 1, -1e8f};
  const Rows x = Put({1, 1, 1}, 3), y = Put({0}, 1);
  executor_.MatMul(Weights(weights, 1), x, y);
  EXPECT_THAT(Get(y), ElementsAre(1));
}

TEST_F(Reference, EmbedsRowsById) {
  const ReferenceFloats weights = {1, 2, 3, 4, 5, 6};
  const Rows y = Put(ReferenceFloats(6), 2);
  executor_.Embed(Weights(weights, 3), std::vector<uint32_t>{2, 0, 2}, y);
  EXPECT_THAT(Get(y), ElementsAre(5, 6, 1, 2, 5, 6));
}

TEST_F(Reference, NormDividesByTheRootOfTheMeanSquare) {
  const ReferenceFloats weight = {2, 1}, bias = {0, 10};
  const Rows x = Put({3, 4, 0, 0}, 2);  // mean squares 12.5 and 0
  executor_.RmsNorm(x, {Weights(weight, 1), Weights(bias, 1), 12.5f}, x);
  EXPECT_THAT(Get(x), ElementsAre(1.2f, 10.8f, 0, 10));
}

TEST_F(Reference, AddsAndScales) {
  const ReferenceFloats bias = {1, -1};
  const Rows x = Put({1, 2, 3, 4}, 2), y = Put({10, 20, 30, 40}, 2);
  executor_.AddBias(x, Weights(bias, 1));
  EXPECT_THAT(Get(x), ElementsAre(2, 1, 4, 3));
  executor_.Add(x, y, 0.5f);
  EXPECT_THAT(Get(x), ElementsAre(7, 11, 19, 23));
  executor_.Scale(x, 2);
  EXPECT_THAT(Get(x), ElementsAre(14, 22, 38, 46));
  executor_.ScaleRows(x, ReferenceFloats{0.5f, -1});
  EXPECT_THAT(Get(x), ElementsAre(7, 11, -38, -46));
  executor_.ScaleBySigmoid(x, Put({0, -std::log(3.0f)}, 1));  // 1/2 and 1/4
  EXPECT_THAT(Get(x), Pointwise(FloatNear(1e-5f), ReferenceFloats{3.5f, 5.5f, -9.5f, -11.5f}));
}

TEST_F(Reference, ActivatesLikeTheFamilies) {
  const auto activated = [&](Activation kind, ReferenceFloats gate, const ReferenceFloats& up) {
    const auto width = static_cast<uint32_t>(gate.size());
    const Rows rows = Put(gate, width);
    executor_.Activate(kind, rows, Put(up, width));
    return Get(rows);
  };
  EXPECT_THAT(activated(Activation::kSilu, {1, -2, 0}, {2, 1, 5}),
              Pointwise(FloatNear(1e-6f), ReferenceFloats{1.4621172f, -0.2384058f, 0}));
  EXPECT_THAT(activated(Activation::kGelu, {1, -2}, {2, 1}),
              Pointwise(FloatNear(1e-6f), ReferenceFloats{1.6823840f, -0.0454023f}));
  EXPECT_THAT(activated(Activation::kSigmoid, {0, -std::log(3.0f)}, {2, 8}),
              Pointwise(FloatNear(1e-6f), ReferenceFloats{1, 2}));
  // 7 sigmoid(11.914) * 8; -9 is not clamped below, its up is: -9 sigmoid(-15.318) * (-7 + 1)
  EXPECT_THAT(activated(Activation::kSquaredRelu, {3, -2}, {7, 7}), ElementsAre(9, 0));
  EXPECT_THAT(activated(Activation::kRelu, {3, -2}, {7, 7}), ElementsAre(21, 0));
  // 4 tanh(1 / 4) sigmoid(1) * 25 tanh(2 / 25), and bounds far away from 0
  EXPECT_THAT(activated(Activation(Activation::kSitu, 4, 25), {1, 900, -900}, {2, 900, 1}),
              Pointwise(FloatNear(1e-6f), ReferenceFloats{1.4293511f, 100, 0}));
  EXPECT_THAT(activated(Activation(Activation::kSitu, 4), {1, 900}, {2, 900}),
              Pointwise(FloatNear(1e-5f), ReferenceFloats{1.4323991f, 3600}));
  EXPECT_THAT(activated(Activation(Activation::kLimitedSilu, 2), {40, -40, 40}, {9, 5, -9}),
              Pointwise(FloatNear(1e-6f), ReferenceFloats{4, 0, -4}));
  // 2 sigmoid(2), twice
  EXPECT_THAT(activated(Activation(Activation::kSiluOfLimited, 2), {40, -40, 40}, {9, 5, -1}),
              Pointwise(FloatNear(1e-6f), ReferenceFloats{3.5231883f, 0, -1.7615942f}));
  EXPECT_THAT(activated(Activation::kClampedSilu, {9, -9}, {100, -100}),
              Pointwise(FloatNear(1e-5f), ReferenceFloats{55.999625f, 1.2015e-5f}));
}

TEST_F(Reference, PropagatesNanThroughClamps) {
  const Rows gate = Put({kNan, 1, kNan}, 3);
  executor_.Activate(Activation::kClampedSilu, gate, Put({1, kNan, kNan}, 3));
  const std::vector<float> values = Get(gate);
  EXPECT_EQ(values.size(), 3u);
  for (const float value : values) EXPECT_TRUE(std::isnan(value)) << value;
}

TEST_F(Reference, RotatesNeighboursOrHalves) {
  const Rows turns = Put({0, 2, 1, 0}, 4);  // a quarter turn, and none with a factor of 2
  const Rows neighbours = Put({9, 1, 2, 3, 4, 9}, 6), halves = Put({9, 1, 2, 3, 4, 9}, 6);
  executor_.Rotate(neighbours, {1, 6, 1, 4, Pairing::kNeighbours}, turns);
  EXPECT_THAT(Get(neighbours), ElementsAre(9, -2, 1, 6, 8, 9));
  executor_.Rotate(halves, {1, 6, 1, 4, Pairing::kHalves}, turns);
  EXPECT_THAT(Get(halves), ElementsAre(9, -3, 4, 1, 8, 9));
}

// Queries of zero weigh everything they see equally, so the result is a mean of positions.
class ReferenceAttention : public Reference {
 protected:
  ReferenceFloats MeansOfSeen(const AttentionShape& shape, const Matrix& sinks = {}) {
    const Rows cache = Put({0, 1, 2, 3, 4, 5}, 1);
    const Rows out = Put(ReferenceFloats(6 - shape.past), 1);
    executor_.Attention(shape, {Put(ReferenceFloats(6 - shape.past), 1), cache, cache, sinks}, out);
    return Get(out);
  }
};

TEST_F(ReferenceAttention, SeesOnlyEarlierPositions) {
  EXPECT_THAT(MeansOfSeen({.heads = 1, .key_heads = 1, .key_width = 1, .value_width = 1}),
              Pointwise(FloatNear(1e-6f), ReferenceFloats{0, 0.5f, 1, 1.5f, 2, 2.5f}));
}

TEST_F(ReferenceAttention, StartsAfterPastPositions) {
  EXPECT_THAT(MeansOfSeen({1, 1, 1, 1, 4}), Pointwise(FloatNear(1e-6f), ReferenceFloats{2, 2.5f}));
}

TEST_F(ReferenceAttention, SeesOnlyItsWindow) {
  EXPECT_THAT(MeansOfSeen({1, 1, 1, 1, 0, 2}),
              Pointwise(FloatNear(1e-6f), ReferenceFloats{0, 0.5f, 1.5f, 2.5f, 3.5f, 4.5f}));
}

TEST_F(ReferenceAttention, SeesOnlyItsChunk) {
  EXPECT_THAT(MeansOfSeen({1, 1, 1, 1, 0, 0, 4}),
              Pointwise(FloatNear(1e-6f), ReferenceFloats{0, 0.5f, 1, 1.5f, 4, 4.5f}));
}

TEST_F(ReferenceAttention, SinksTakeWeightAndAddNothing) {
  const ReferenceFloats sinks = {0};  // like one more position of value 0
  EXPECT_THAT(MeansOfSeen({1, 1, 1, 1, 4}, Weights(sinks, 1)),
              Pointwise(FloatNear(1e-6f), ReferenceFloats{10.0f / 6, 15.0f / 7}));
}

TEST_F(ReferenceAttention, WeighsByTheExponentialOfScaledProducts) {
  // Two query heads share the key head: products 1 and 3 with scale ln 2, so weights 1 : 4.
  const Rows keys = Put({1, 3}, 1), values = Put({0, 1, 10, 100}, 2);
  const Rows queries = Put({1, -1}, 2), out = Put(ReferenceFloats(4), 4);
  executor_.Attention({2, 1, 1, 2, 1, 0, 0, std::log(2.0f)}, {queries, keys, values, {}}, out);
  EXPECT_THAT(Get(out), Pointwise(FloatNear(1e-5f), ReferenceFloats{8, 80.2f, 2, 20.8f}));
}

TEST_F(Reference, GathersAndScattersRows) {
  const Rows x = Put({1, 2, 3, 4, 5, 6}, 2), y = Put(ReferenceFloats(4), 2);
  executor_.Gather(x, std::vector<uint32_t>{2, 0}, ReferenceFloats{2, -1}, y);
  EXPECT_THAT(Get(y), ElementsAre(10, 12, -1, -2));
  executor_.ScatterAdd(x, std::vector<uint32_t>{1, 2}, ReferenceFloats{0.5f, 10}, y);
  EXPECT_THAT(Get(x), ElementsAre(1, 2, 8, 10, -5, -14));
}

}  // namespace
}  // namespace moepack::runtime
