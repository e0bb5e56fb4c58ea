#include "runtime-shim/refit/cholesky.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/runtime-shim/refit/made_node.h"

namespace moepack::runtime {
namespace {

TEST(Cholesky, SolutionSolvesTheSystem) {
  constexpr size_t kSize = 300, kColumns = 70;  // more than two blocks of the factorization
  const std::vector<double> matrix = DefiniteMatrix(kSize);
  const std::vector<float> wanted = RandomFloats(kSize * kColumns, 4);
  std::vector<double> right(kSize * kColumns, 0);
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t k = 0; k < kSize; ++k) {
      for (size_t j = 0; j < kColumns; ++j)
        right[i * kColumns + j] += matrix[i * kSize + k] * wanted[k * kColumns + j];
    }
  }
  std::vector<double> upper = matrix;
  for (size_t i = 0; i < kSize; ++i)
    std::fill_n(upper.begin() + static_cast<ptrdiff_t>(i * kSize), i,
                std::numeric_limits<double>::quiet_NaN());
  const auto factor = Cholesky::Of(upper, kSize, 2);
  ASSERT_TRUE(factor);
  factor->Solve(right, kColumns, 1);
  for (size_t i = 0; i < right.size(); ++i) ASSERT_NEAR(right[i], wanted[i], 1e-9) << i;
}

TEST(Cholesky, DiagonalOfTheInverseMatchesSolvedUnitVectors) {
  constexpr size_t kSize = 300;
  std::vector<double> matrix = DefiniteMatrix(kSize);
  const auto factor = Cholesky::Of(matrix, kSize, 1);
  ASSERT_TRUE(factor);
  std::vector<double> inverse(kSize * kSize, 0);
  for (size_t i = 0; i < kSize; ++i) inverse[i * kSize + i] = 1;
  factor->Solve(inverse, kSize, 1);
  const std::vector<double> diagonal = factor->InverseDiagonal(1);
  for (size_t i = 0; i < kSize; ++i) EXPECT_NEAR(diagonal[i], inverse[i * kSize + i], 1e-12);
}

TEST(Cholesky, BitsDoNotDependOnThreads) {
  constexpr size_t kSize = 500, kColumns = 300;
  std::vector<double> matrix = DefiniteMatrix(kSize), copy = matrix;
  const auto factor = Cholesky::Of(matrix, kSize, 1);
  const auto by_many = Cholesky::Of(copy, kSize, 5);
  ASSERT_TRUE(factor && by_many);
  const std::vector<float> values = RandomFloats(kSize * kColumns, 5);
  std::vector<double> one(values.begin(), values.end()), many = one;
  factor->Solve(one, kColumns, 1);
  by_many->Solve(many, kColumns, 5);
  EXPECT_EQ(one, many);
  EXPECT_EQ(factor->InverseDiagonal(1), by_many->InverseDiagonal(5));
}

TEST(Cholesky, MatricesThatAreNotPositiveDefiniteHaveNoFactor) {
  const auto has_factor = [](std::vector<double> matrix) {
    return Cholesky::Of(matrix, 2, 1).has_value();
  };
  EXPECT_FALSE(has_factor({1, 0, 0, 0}));
  EXPECT_FALSE(has_factor({1, 2, 2, 1}));
  EXPECT_FALSE(has_factor({1, 0, 0, std::numeric_limits<double>::quiet_NaN()}));
  EXPECT_TRUE(has_factor({1, 0, 0, 1}));
}

TEST(Cholesky, AMatrixWhoseLastBlockIsNotDefiniteHasNoFactor) {
  constexpr size_t kSize = 300;
  const std::vector<double> matrix = DefiniteMatrix(kSize);
  for (const double pivot : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    std::vector<double> broken = matrix;
    broken.back() = pivot;
    EXPECT_FALSE(Cholesky::Of(broken, kSize, 2)) << pivot;
  }
  std::vector<double> broken = matrix;
  broken[3 * kSize + kSize - 1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(Cholesky::Of(broken, kSize, 2));
}

}  // namespace
}  // namespace moepack::runtime
