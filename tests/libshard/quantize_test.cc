#include "libshard/quantize.h"

#include <gtest/gtest.h>

namespace shard {
namespace {

TEST(RecipeText, SaysWhatDecidesTheBytes) {
  RecipeOptions options;
  EXPECT_EQ(RecipeText(options), "exact");
  options.recipe = "q4_0";
  options.experts_type = "q5_K";
  EXPECT_EQ(RecipeText(options), "Q4_0 --experts-type q5_K");
  options.repack = false;
  EXPECT_EQ(RecipeText(options), "Q4_0 --experts-type q5_K --no-repack");
}

TEST(RecipeText, CanBeAskedWhetherTheGridWasKept) {
  for (const bool repack : {false, true}) {
    RecipeOptions options;
    options.recipe = "Q4_0";
    options.repack = repack;
    EXPECT_EQ(RecipeRepacks(RecipeText(options)), repack);
    EXPECT_EQ(RecipeRepacks(RecipeText(options) + " --no-mtp"), repack);
  }
  EXPECT_TRUE(RecipeRepacks("Q4_0 --tensor-type x--no-repack=q4_0"));
}

}  // namespace
}  // namespace shard
