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

TEST_F(RefitProducts, SquaresAreThoseOfTheProduct) {
  constexpr size_t kA = 603, kB = 9;  // pieces for several threads, and rows that are left over
  for (const size_t rows : kRows) {
    SCOPED_TRACE(rows);
    const std::vector<float> a = RandomFloats(rows * kA, 3), b = RandomFloats(rows * kB, 4);
    Products one(*executor_, 1), three(*executor_, 3);
    std::vector<double> product(kA * kB, 0), expected(kA, 0);
    ASSERT_TRUE(one.AddProduct({a, kA}, {b, kB}, {product.data(), kB}));
    for (size_t i = 0; i < product.size(); ++i) expected[i / kB] += product[i] * product[i];
    for (Products* const products : {&one, &three}) {
      const auto held = products->Hold({b, kB});
      ASSERT_TRUE(held);
      std::vector<double> squares(kA, 1);
      ASSERT_TRUE(products->SquareProduct({a, kA}, *held, squares));
      EXPECT_EQ(squares, expected);
    }
  }
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
