#include "runtime-shim/calibrate/moments.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/refit/made_node.h"

namespace moepack::runtime {
namespace {

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
