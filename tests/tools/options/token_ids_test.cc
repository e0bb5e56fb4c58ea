#include "tools/options/token_ids.h"

#include <gtest/gtest.h>

namespace moepack::cli {
namespace {

TEST(TokenIds, AreSeparatedByCommasOrSpaces) {
  const auto ids = ParseTokenIds("--tokens", "12,7, 9 0");
  ASSERT_TRUE(ids);
  EXPECT_EQ(*ids, (std::vector<uint32_t>{12, 7, 9, 0}));
}

TEST(TokenIds, InvalidIdsAreRefusedByName) {
  const auto message = [](const char* text) {
    const auto ids = ParseTokenIds("--tokens", text);
    return ids ? "accepted" : ids.error().message;
  };
  EXPECT_EQ(message("1,x"), "--tokens: expected token ids like 12,7,9, found \"x\"");
  EXPECT_EQ(message("-1"), "--tokens: expected token ids like 12,7,9, found \"-1\"");
  EXPECT_EQ(message("4294967296"),
            "--tokens: expected token ids like 12,7,9, found \"4294967296\"");
  EXPECT_EQ(message(" ,"), "--tokens: give at least one token");
}

}  // namespace
}  // namespace moepack::cli
