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

TEST(Suggest, IgnoresHyphensAndUnderscores) {
  const std::vector<std::string> recipes = {"Q4_K_S", "Q4_K_M", "Q5_K_M", "Q8_0"};
  EXPECT_EQ(ClosestWord("Q4KM", recipes), "Q4_K_M");
  EXPECT_EQ(ClosestWord("q4-k-m", recipes), "Q4_K_M");
  EXPECT_EQ(ClosestWord("Q5KM", recipes), "Q5_K_M");
  EXPECT_EQ(ClosestWord("--top_k", {"--top-p", "--top-k"}), "--top-k");
  EXPECT_EQ(ClosestWord("--", {"--top-k"}), "");
}

TEST(Suggest, NamesAllThatAreEquallyCloseIfTheyAreFew) {
  const std::vector<std::string> recipes = {"Q4_K_S", "Q4_K_M", "Q4_0", "Q4_1", "Q8_0"};
  EXPECT_EQ(DidYouMean("Q8", recipes), "did you mean Q8_0?");
  EXPECT_EQ(DidYouMean("Q4", recipes), "did you mean Q4_K_S, Q4_K_M, Q4_0 or Q4_1?");
  EXPECT_EQ(DidYouMean("Q4_K_X", recipes), "did you mean Q4_K_S or Q4_K_M?");
  EXPECT_EQ(DidYouMean("Q4K", {"Q4_K", "Q4_K_S"}), "did you mean Q4_K?");
  EXPECT_EQ(DidYouMean("iq", {"iq1", "iq2", "iq3", "iq4", "iq5"}), "");
}

TEST(Suggest, SuggestsNothingForUnrelatedWords) {
  EXPECT_EQ(ClosestWord("frobnicate", kKnown), "");
  EXPECT_EQ(ClosestWord(std::string(100, 'x'), kKnown), "");
  EXPECT_EQ(ClosestWord("", kKnown), "");
}

}  // namespace
}  // namespace moepack
