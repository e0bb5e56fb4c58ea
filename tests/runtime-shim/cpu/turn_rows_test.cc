#include "runtime-shim/cpu/turn_rows.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/random_floats.h"

namespace moepack::runtime {
namespace {

// Whole tiles, parts of them, and none; what is between the rows that are written stays.
TEST(TurnRows, MatchesTheReference) {
  for (const size_t rows : {0, 1, 3, 16, 35, 64}) {
    for (const size_t columns : {1, 4, 16, 21, 48}) {
      const size_t from_stride = columns + 5, stride = rows + 3;
      const std::vector<float> from = RandomFloats(rows * from_stride + 1, 1);
      std::vector<float> found = RandomFloats(columns * stride, 2), wanted = found;
      TurnRows({from.data(), rows, columns, from_stride}, found.data(), stride);
      TurnRowsRef({from.data(), rows, columns, from_stride}, wanted.data(), stride);
      EXPECT_EQ(found, wanted) << rows << " rows, " << columns << " columns";
    }
  }
}

}  // namespace
}  // namespace moepack::runtime
