#include "runtime-shim/cpu/panels.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/random_floats.h"

namespace moepack::runtime {
namespace {

template <class Float>
void ExpectTheReference(auto add, auto add_in_turn, double tolerance) {
  const auto random = [](size_t count, uint64_t seed) {
    const std::vector<float> values = RandomFloats(count, seed);
    return std::vector<Float>(values.begin(), values.end());
  };
  for (const size_t count : {1, 2, 3, 8, 11}) {
    for (const size_t depth : {0, 1, 7, 256, 300}) {
      const std::vector<Float> factors = random(count * (depth + 3), 1),
                               panel = random((depth + 1) * 40, 2);
      std::vector<Float> found = random(count * kPanelColumns, 3), wanted = found;
      const PanelFactorsOf<Float> rows{factors.data(), depth + 3, count, depth};
      add(rows, {panel.data(), 40}, {found.data()});
      add_in_turn(rows, {panel.data(), 40}, {wanted.data()});
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], wanted[i], tolerance) << count << " " << depth << " " << i;
    }
  }
}

TEST(PanelProducts, MatchTheReference) {
  ExpectTheReference<float>(AddPanelProducts, AddPanelProductsRef, 1e-4);
}

TEST(PanelProducts, OfDoublesMatchTheReference) {
  ExpectTheReference<double>(AddDoubleProducts, AddDoubleProductsRef, 1e-12);
}

TEST(PanelProducts, OfARowHaveTheSameBitsBesideOthers) {
  constexpr size_t kCount = 11, kDepth = 300;
  const std::vector<float> factors = RandomFloats(kCount * kDepth, 1),
                           panel = RandomFloats(kDepth * kPanelColumns, 2);
  std::vector<float> together(kCount * kPanelColumns, 0), apart = together;
  AddPanelProducts({factors.data(), kDepth, kCount, kDepth}, {panel.data()}, {together.data()});
  for (size_t row = 0; row < kCount; ++row)
    AddPanelProducts({factors.data() + row * kDepth, kDepth, 1, kDepth}, {panel.data()},
                     {apart.data() + row * kPanelColumns});
  EXPECT_EQ(together, apart);
}

}  // namespace
}  // namespace moepack::runtime
