#include "libshard/base/files/inside_path.h"

#include <gtest/gtest.h>

namespace moepack {
namespace {

TEST(SafePath, IsRelativeAndStaysInside) {
  for (const char* path : {"a", "a/b.c", "..a/b", "a..b"}) EXPECT_TRUE(IsSafeRelativePath(path));
  for (const char* path :
       {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "a/./b", "a\nb", "a\\b"}) {
    EXPECT_FALSE(IsSafeRelativePath(path)) << path;
  }
}

// Names that a manifest cannot use may still occur in a directory, if the user named it.
TEST(StaysBelow, ChecksOnlyWhereANameLeads) {
  for (const char* path : {"a", "a/b.c", "..a", "a\nb", "a\\b"}) EXPECT_TRUE(StaysBelow(path));
  for (const char* path : {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b"}) {
    EXPECT_FALSE(StaysBelow(path)) << path;
  }
}

}  // namespace
}  // namespace moepack
