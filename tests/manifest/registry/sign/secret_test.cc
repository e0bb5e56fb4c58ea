#include "manifest/registry/sign/secret.h"

#include <gtest/gtest.h>

namespace moepack::registry {
namespace {

TEST(Secret, AMoveLeavesNothingBehind) {
  Secret first("a short one");
  const Secret second(std::move(first));
  EXPECT_EQ(second.text(), "a short one");
  EXPECT_TRUE(first.empty());  // NOLINT: what is left is the point
  Secret third;
  EXPECT_TRUE(third.empty());
  third = Secret("another");
  EXPECT_EQ(third.text(), "another");
}

TEST(Secret, WipedTextIsEmpty) {
  std::string text = "a text that is longer than what a string holds in itself";
  Wipe(text);
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace moepack::registry
