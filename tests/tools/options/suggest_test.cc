#include "tools/options/suggest.h"

#include <gtest/gtest.h>

namespace moepack::cli {
namespace {

const std::vector<std::string> kKnown = {"list-tensors", "plan", "shard-experts", "verify"};

TEST(Suggest, FindsTheWordOneTypoAway) {
  EXPECT_EQ(ClosestWord("verfy", kKnown), "verify");
  EXPECT_EQ(ClosestWord("pln", kKnown), "plan");
  EXPECT_EQ(ClosestWord("shard-exprets", kKnown), "shard-experts");
}

TEST(Suggest, TreatsAPrefixAsClose) { EXPECT_EQ(ClosestWord("list", kKnown), "list-tensors"); }

TEST(Suggest, SuggestsNothingForUnrelatedWords) {
  EXPECT_EQ(ClosestWord("frobnicate", kKnown), "");
  EXPECT_EQ(ClosestWord(std::string(100, 'x'), kKnown), "");
  EXPECT_EQ(ClosestWord("", kKnown), "");
}

}  // namespace
}  // namespace moepack::cli
