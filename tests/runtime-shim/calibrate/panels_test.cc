#include "runtime-shim/calibrate/panels.h"

#include <gtest/gtest.h>

#include "runtime-shim/calibrate/moments.h"
#include "tests/runtime-shim/refit/made_node.h"

namespace moepack::runtime {
namespace {

TEST(PanelProducts, MatchTheReference) {
  for (const size_t count : {1, 2, 3, 8, 11}) {
    for (const size_t depth : {0, 1, 7, 256, 300}) {
      const std::vector<float> factors = RandomFloats(count * (depth + 3), 1),
                               panel = RandomFloats((depth + 1) * 40, 2);
      std::vector<float> found = RandomFloats(count * kPanelColumns, 3), wanted = found;
      AddPanelProducts({factors.data(), depth + 3, count, depth}, {panel.data(), 40},
                       {found.data()});
      AddPanelProductsRef({factors.data(), depth + 3, count, depth}, {panel.data(), 40},
                          {wanted.data()});
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], wanted[i], 1e-4) << count << " " << depth << " " << i;
    }
  }
}

TEST(InputMoments, AreTheSumsOfProducts) {
  // Neither the rows nor the columns fill whole blocks.
  constexpr size_t kColumns = 45, kRows = 2300;
  const std::vector<float> rows = RandomFloats(kRows * kColumns, 4),
                           full = RandomFloats(kRows * kColumns, 5);
  MomentSums sums(kColumns, true, 3), again(kColumns, true, 1);
  const size_t first = 700 * kColumns;
  sums.Add(std::span(rows).first(first), std::span(full).first(first));
  sums.Add(std::span(rows).subspan(first), std::span(full).subspan(first));
  again.Add(rows, full);
  const InputMoments found = sums.Finish(), same = again.Finish();
  EXPECT_EQ(found.tokens, kRows);
  EXPECT_EQ(found.own, same.own);
  EXPECT_EQ(found.drift, same.drift);
  for (size_t i = 0; i < kColumns; ++i) {
    for (size_t j = 0; j < kColumns; ++j) {
      double own = 0, drift = 0;
      for (size_t t = 0; t < kRows; ++t) {
        const double x = rows[t * kColumns + i], y = rows[t * kColumns + j];
        own += x * y;
        drift += (full[t * kColumns + i] - x) * y;
      }
      ASSERT_NEAR(found.own[i * kColumns + j], own, 1e-2) << i << " " << j;
      ASSERT_NEAR(found.drift[i * kColumns + j], drift, 1e-2) << i << " " << j;
    }
  }
}

}  // namespace
}  // namespace moepack::runtime
