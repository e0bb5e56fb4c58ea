#include "tools/options/given_once.h"

#include <gtest/gtest.h>

namespace moepack::cli {
namespace {

std::string MessageOf(const Status& status) { return status ? "" : status.error().message; }

TEST(GivenOnce, NamesTheOptionAndTheValue) {
  EXPECT_EQ(MessageOf(CheckGivenOnce<uint32_t>("--slots", {})), "");
  EXPECT_EQ(MessageOf(CheckGivenOnce<uint32_t>("--slots", {4, 2})), "");
  EXPECT_EQ(MessageOf(CheckGivenOnce<uint32_t>("--slots", {4, 2, 4})), "--slots: 4 is given twice");
  EXPECT_EQ(MessageOf(CheckGivenOnce<std::string>("--strategies", {"same", "same"})),
            "--strategies: \"same\" is given twice");
}

TEST(GivenOnce, ARecipeMayBeSpelledInSeveralWays) {
  const auto refusal = [](const std::vector<std::string>& recipes) {
    return MessageOf(CheckRecipesGivenOnce("--recipes", recipes));
  };
  EXPECT_EQ(refusal({"source", "Q8_0", "Q4_K_M", "Q4_K_S"}), "");
  EXPECT_EQ(refusal({"Q4_K_M", "q4_k_m"}), "--recipes: \"Q4_K_M\" is given twice");
  EXPECT_EQ(refusal({"Q4_K", "Q4_K_M"}), "--recipes: \"Q4_K_M\" is given twice");
  EXPECT_EQ(refusal({"source", "Source"}), "--recipes: \"source\" is given twice");
}

}  // namespace
}  // namespace moepack::cli
