#include "runtime-shim/refit/products.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/refit/made_node.h"

namespace moepack::runtime {
namespace {

class RefitProducts : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = OpenExecutor("cpu", {});
    ASSERT_TRUE(opened) << opened.error().message;
    executor_ = std::move(*opened);
  }

  std::unique_ptr<Executor> executor_;
};

constexpr size_t kRows[] = {0, 1, kTokensOfSum, kTokensOfSum + 1, 5000};

// a'b, by plain loops over the rows.
std::vector<double> Product(const std::vector<float>& a, size_t a_columns,
                            const std::vector<float>& b, size_t b_columns) {
  std::vector<double> product(a_columns * b_columns, 0);
  for (size_t row = 0; row < a.size() / a_columns; ++row) {
    for (size_t i = 0; i < a_columns; ++i) {
      for (size_t j = 0; j < b_columns; ++j)
        product[i * b_columns + j] += double{a[row * a_columns + i]} * b[row * b_columns + j];
    }
  }
  return product;
}

TEST_F(RefitProducts, AddWhatPlainLoopsAdd) {
  constexpr size_t kA = 5, kB = 7;
  for (const size_t rows : kRows) {
    SCOPED_TRACE(rows);
    const std::vector<float> a = RandomFloats(rows * kA, 1), b = RandomFloats(rows * kB, 2);
    Products products(*executor_, 2);
    std::vector<double> sums(kA * kB, 3);
    ASSERT_TRUE(products.AddProduct({a, kA}, {b, kB}, {sums.data(), kB}));
    const std::vector<double> expected = Product(a, kA, b, kB);
    for (size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(sums[i], 3 + expected[i], 1e-2) << i;
  }
}

TEST_F(RefitProducts, MultiplyByUsesTheWeightsThemselves) {
  constexpr size_t kIn = 7, kOut = 5, kCount = 4099;  // more tokens than run at a time
  const std::vector<float> weights = RandomFloats(kIn * kOut, 1), x = RandomFloats(kCount * kIn, 2);
  std::vector<float> y(kCount * kOut);
  Products products(*executor_, 2);
  ASSERT_TRUE(products.MultiplyBy({weights, kOut}, x, y));
  for (size_t token = 0; token < kCount; ++token) {
    for (size_t column = 0; column < kOut; ++column) {
      double sum = 0;
      for (size_t row = 0; row < kIn; ++row)
        sum += double{x[token * kIn + row]} * weights[row * kOut + column];
      ASSERT_NEAR(y[token * kOut + column], sum, 1e-5) << token << ", " << column;
    }
  }
}

// Made tokens and one made expert; with a length that is not a multiple of what is added up at a
// time.
struct MadeTokens {
  explicit MadeTokens(size_t count)
      : shape{.hidden = 9, .width = 7, .ids = {0}},
        expert(RandomExperts(shape, 10)),
        inputs(RandomFloats(count * shape.hidden, 1)),
        gates(RandomFloats(count, 2)),
        roots(RandomFloats(count, 3)),
        residuals(RandomFloats(count * shape.hidden, 4)) {}
  MadeShape shape;
  RefittedExperts expert;
  std::vector<float> inputs, gates, roots, residuals;
};

// |phi'r| and |phi| of each neuron, by plain loops over the tokens.
std::vector<NeuronSize> PlainSizes(const MadeTokens& made, bool weigh_inputs) {
  const size_t hidden = made.shape.hidden, width = made.shape.width;
  std::vector<double> products(width * hidden, 0), squares(width, 0);
  for (size_t token = 0; token < made.gates.size(); ++token) {
    std::vector<float> x(made.inputs.begin() + static_cast<ptrdiff_t>(token * hidden),
                         made.inputs.begin() + static_cast<ptrdiff_t>((token + 1) * hidden));
    if (weigh_inputs) {
      for (float& value : x) value *= made.gates[token];
    }
    std::vector<double> phi = PlainActivations(made.expert, 0, x.data());
    for (size_t i = 0; i < width; ++i) {
      phi[i] *= double{made.roots[token]} * (weigh_inputs ? 1 : made.gates[token]);
      squares[i] += phi[i] * phi[i];
      for (size_t column = 0; column < hidden; ++column)
        products[i * hidden + column] += phi[i] * made.residuals[token * hidden + column];
    }
  }
  std::vector<NeuronSize> sizes;
  for (size_t i = 0; i < width; ++i) {
    double explained = 0;
    for (size_t column = 0; column < hidden; ++column)
      explained += products[i * hidden + column] * products[i * hidden + column];
    sizes.push_back(
        {static_cast<float>(std::sqrt(explained)), static_cast<float>(std::sqrt(squares[i]))});
  }
  return sizes;
}

TEST_F(RefitProducts, MeasureNeuronsAsPlainLoopsDo) {
  for (const bool weigh_inputs : {false, true}) {
    const ExpertForm form = {Activation::kSilu, weigh_inputs};
    Products products(*executor_, 2);
    // The last sample is smaller than the ones before, whose values must not remain.
    for (const size_t count : {1, 5, 2051, 6}) {
      SCOPED_TRACE(count);
      const MadeTokens made(count);
      const auto matrices = LoadExpert(made.expert, 0, *executor_);
      ASSERT_TRUE(matrices);
      ASSERT_TRUE(products.HoldTokens(form, made.inputs, made.gates, made.roots, made.residuals));
      std::vector<NeuronSize> sizes;
      ASSERT_TRUE(products.MeasureNeurons(matrices->experts[0], form, sizes));
      const std::vector<NeuronSize> expected = PlainSizes(made, weigh_inputs);
      ASSERT_EQ(sizes.size(), expected.size());
      for (size_t i = 0; i < sizes.size(); ++i) {
        EXPECT_NEAR(sizes[i].explained, expected[i].explained, 1e-6 + 1e-4 * expected[i].explained)
            << i;
        EXPECT_NEAR(sizes[i].own, expected[i].own, 1e-6 + 1e-5 * expected[i].own) << i;
      }
    }
  }
}

TEST_F(RefitProducts, MeasureNothingWithoutTokens) {
  const MadeTokens made(0);
  const auto matrices = LoadExpert(made.expert, 0, *executor_);
  ASSERT_TRUE(matrices);
  Products products(*executor_, 1);
  ASSERT_TRUE(products.HoldTokens({}, {}, {}, {}, {}));
  std::vector<NeuronSize> sizes;
  ASSERT_TRUE(products.MeasureNeurons(matrices->experts[0], {}, sizes));
  ASSERT_EQ(sizes.size(), made.shape.width);
  EXPECT_EQ(sizes[0].explained, 0);
  EXPECT_EQ(sizes[0].own, 0);
}

TEST_F(RefitProducts, BitsDoNotDependOnThreads) {
  constexpr size_t kA = 603, kB = 11, kCount = 300;
  const std::vector<float> a = RandomFloats(kCount * kA, 5), b = RandomFloats(kCount * kB, 6);
  std::vector<double> of_one(kA * kB, 0), of_three = of_one;
  ASSERT_TRUE(Products(*executor_, 1).AddProduct({a, kA}, {b, kB}, {of_one.data(), kB}));
  ASSERT_TRUE(Products(*executor_, 3).AddProduct({a, kA}, {b, kB}, {of_three.data(), kB}));
  EXPECT_EQ(of_one, of_three);
}

}  // namespace
}  // namespace moepack::runtime
