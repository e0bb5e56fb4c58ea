#include "libshard/base/text/suggest.h"

#include <gtest/gtest.h>

namespace moepack {
namespace {

const std::vector<std::string> kKnown = {"list-tensors", "plan", "shard-experts", "verify"};

TEST(Suggest, FindsTheWordOneTypoAway) {
  EXPECT_EQ(ClosestWord("verfy", kKnown), "verify");
  EXPECT_EQ(ClosestWord("pln", kKnown), "plan");
  EXPECT_EQ(ClosestWord("shard-exprets", kKnown), "shard-experts");
}

TEST(Suggest, SwappedLettersAreOneMistake) {
  EXPECT_EQ(ClosestWord("biuld", {"build", "quantize"}), "build");
}

TEST(Suggest, IgnoresCase) { EXPECT_EQ(ClosestWord("q4_km", {"Q8_0", "Q4_K_M"}), "Q4_K_M"); }

TEST(Suggest, OneWordIsNotAnotherOfSimilarLetters) {
  EXPECT_EQ(ClosestWord("export", {"report", "experiment"}), "");
  EXPECT_EQ(ClosestWord("x", {"a", "b"}), "");
}

TEST(Suggest, AnUnknownWordIsNamedBesideTheKnownOnes) {
  const Error error = NotOneOf("executor", {"cpu", "cuda"}, "cudda");
  EXPECT_EQ(error.message, "executor: expected one of cpu, cuda, found \"cudda\"");
  EXPECT_EQ(error.hint, "did you mean cuda?");
  EXPECT_EQ(NotOneOf("", {"cpu"}, "tpu2").message, "expected one of cpu, found \"tpu2\"");
}

TEST(Suggest, TreatsAPrefixAsClose) { EXPECT_EQ(ClosestWord("list", kKnown), "list-tensors"); }

TEST(Suggest, SuggestsNothingForUnrelatedWords) {
  EXPECT_EQ(ClosestWord("frobnicate", kKnown), "");
  EXPECT_EQ(ClosestWord(std::string(100, 'x'), kKnown), "");
  EXPECT_EQ(ClosestWord("", kKnown), "");
}

}  // namespace
}  // namespace moepack
