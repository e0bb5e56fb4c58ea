#include "tools/base/range_text.h"

#include <gtest/gtest.h>

namespace moepack::cli {
namespace {

TEST(RangeText, OneIsNotAPlural) {
  EXPECT_EQ(RangeText(1, 1, "expert"), "1 expert");
  EXPECT_EQ(RangeText(8, 8, "expert"), "8 experts");
  EXPECT_EQ(RangeText(1, 8, "expert"), "1 to 8 experts");
}

}  // namespace
}  // namespace moepack::cli
