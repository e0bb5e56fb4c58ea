#include "runtime-shim/cpu/packed_products.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/random_floats.h"

namespace moepack::runtime {
namespace {

struct ProductShape {
  size_t rows, depth, columns;
};

// Neither blocks nor panels are full; and a single value.
constexpr ProductShape kProductShapes[] = {{1, 1, 1}, {5, 7, 3}, {300, 520, 290}, {129, 40, 64}};

// Plain loops: a [rows, depth] times b [depth, columns], plus the bias.
std::vector<double> PlainProduct(const ProductShape& shape, const std::vector<float>& a,
                                 const std::vector<float>& b, const std::vector<float>& bias) {
  std::vector<double> out(shape.rows * shape.columns);
  for (size_t i = 0; i < shape.rows; ++i) {
    for (size_t j = 0; j < shape.columns; ++j) {
      double sum = bias.empty() ? 0 : bias[j];
      for (size_t k = 0; k < shape.depth; ++k)
        sum += double{a[i * shape.depth + k]} * b[k * shape.columns + j];
      out[i * shape.columns + j] = sum;
    }
  }
  return out;
}

TEST(PackedProducts, AreThoseOfPlainLoops) {
  for (const ProductShape& shape : kProductShapes) {
    SCOPED_TRACE(shape.rows);
    const std::vector<float> a = RandomFloats(shape.rows * shape.depth, 1),
                             b = RandomFloats(shape.depth * shape.columns, 2),
                             bias = RandomFloats(shape.columns, 3);
    const std::vector<double> wanted = PlainProduct(shape, a, b, bias);
    std::vector<float> turned;
    TurnMatrix(FloatMatrix::Of(b, shape.columns), shape.depth, 2, turned);
    PackedMatrix straight, packed;
    straight.Pack(FloatMatrix::Of(b, shape.columns), 2);
    packed.PackTurned(FloatMatrix::Of(turned, shape.depth), 2);
    std::vector<float> out(wanted.size(), 7), other(wanted.size(), 8);
    MultiplyPacked(FloatMatrix::Of(a, shape.depth), straight, bias, 2, out);
    MultiplyPacked(FloatMatrix::Of(a, shape.depth), packed, bias, 1, other);
    EXPECT_EQ(out, other);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], wanted[i], 1e-3) << i;
  }
}

TEST(PackedProducts, AreAddedToDoubles) {
  for (const ProductShape& shape : kProductShapes) {
    SCOPED_TRACE(shape.rows);
    const std::vector<float> a = RandomFloats(shape.rows * shape.depth, 1),
                             b = RandomFloats(shape.depth * shape.columns, 2);
    const std::vector<double> wanted = PlainProduct(shape, a, b, {});
    PackedMatrix packed;
    packed.Pack(FloatMatrix::Of(b, shape.columns), 1);
    for (const bool upper : {false, true}) {
      std::vector<double> sums(wanted.size(), 2);
      AddPacked(FloatMatrix::Of(a, shape.depth), packed, upper, 2, {sums.data(), shape.columns});
      for (size_t i = 0; i < sums.size(); ++i) {
        if (upper && i / shape.columns > i % shape.columns) continue;
        ASSERT_NEAR(sums[i], 2 + wanted[i], 1e-3) << i;
      }
    }
  }
}

}  // namespace
}  // namespace moepack::runtime
