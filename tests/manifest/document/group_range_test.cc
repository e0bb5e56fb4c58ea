#include "manifest/document/group_range.h"

#include <gtest/gtest.h>

namespace moepack::manifest {
namespace {

TEST(CheckGroup, AcceptsEveryExistingGroup) {
  EXPECT_TRUE(CheckGroup("out", 0, 1));
  EXPECT_TRUE(CheckGroup("out", 2, 3));
}

TEST(CheckGroup, AGroupOutOfRangeIsAnInvalidArgument) {
  const auto status = CheckGroup("out", 3, 3);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  EXPECT_EQ(status.error().message, "out: group: expected 0 to 2, found 3");
}

}  // namespace
}  // namespace moepack::manifest
