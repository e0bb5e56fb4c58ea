#include "libshard/recipe/recipe_text.h"

#include <gtest/gtest.h>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

TEST(RecipeText, NamesEveryOptionThatAffectsTheBytes) {
  RecipeOptions options;
  EXPECT_EQ(RecipeText(options), "exact");
  options.recipe = "q4_0";
  options.experts_type = "q5_K";
  EXPECT_EQ(RecipeText(options), "Q4_0 --experts-type q5_K");
  options.repack = false;
  EXPECT_EQ(RecipeText(options), "Q4_0 --experts-type q5_K --no-repack");
}

TEST(RecipeText, FollowsTheWordingAndOrderOfTheFormatsDocument) {
  RecipeOptions options;
  options.recipe = "BF16";
  options.trunk_type = options.experts_type = options.overlay_type = "q8_0";
  options.output_type = options.embedding_type = "q8_0";
  options.tensor_types = {"a=q8_0"};
  options.repack = false;
  options.allow_requantize = true;
  const std::string text = RecipeText(options);
  const std::string page = fixtures::ReadFile(MOEPACK_SOURCE_DIR "/docs/distribution-format.md");
  size_t from = page.find("\n`recipe`: ");
  ASSERT_NE(from, page.npos);
  size_t words = 0;
  for (const std::string& word : Split(text, ' ')) {
    if (!word.starts_with("--")) continue;
    const size_t at = page.find("`" + word + "`", from);
    ASSERT_NE(at, page.npos) << word << " is missing, or comes before an earlier word";
    from = at;
    ++words;
  }
  EXPECT_EQ(words, 8u);
}

TEST(RecipeText, PutsTheRulesOfAFileOnOneLineWithoutComments) {
  RecipeOptions options;
  options.recipe = "Q4_0";
  options.tensor_types = {"ffn_down=q6_K, ffn_up=q8_0",
                          "# why --pure q4_0\na.*=q5_K # no\n\nb=q6_K"};
  EXPECT_EQ(RecipeText(options),
            "Q4_0 --tensor-type ffn_down=q6_K, ffn_up=q8_0 --tensor-type a.*=q5_K,b=q6_K");
}

TEST(ParseRecipeText, ReadsEveryTextThatIsWritten) {
  std::vector<RecipeOptions> all(8);
  all[1].recipe = "Q4_K_M";
  all[2].recipe = "q8_0";
  all[2].experts_type = "q5_K";
  all[2].overlay_type = "q6_K";
  all[3].pure = "q4_0";
  all[3].repack = false;
  all[4].recipe = "Q4_0";
  all[4].trunk_type = all[4].output_type = all[4].embedding_type = "f16";
  all[4].tensor_types = {"ffn_down_exps=q6_K", "blk\\.[0-9]{1,2}=q8_0 other=q4_0"};
  all[4].repack = false;
  all[5].tensor_types = {"x--no-repack=q4_0"};
  all[6].recipe = "balanced";
  all[6].tensor_types = {"#only\na=q4_0", "b=q4_0"};
  all[7].repack = false;
  for (const RecipeOptions& options : all) {
    const std::string text = RecipeText(options);
    const Result<RecipeOptions> read = ParseRecipeText("tool.recipe", text);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(RecipeText(*read), text);
    EXPECT_EQ(read->repack, options.repack);
    EXPECT_EQ(read->pure, options.pure);
    EXPECT_EQ(read->experts_type, options.experts_type);
    EXPECT_EQ(read->tensor_types.size(), options.tensor_types.size());
  }
}

TEST(ParseRecipeText, RecordsPermissionToRequantizeWhereItMatters) {
  RecipeOptions options;
  options.recipe = "BF16";
  EXPECT_EQ(RecipeText(options), "BF16");
  options.allow_requantize = true;
  EXPECT_EQ(RecipeText(options), "BF16 --allow-requantize");
  EXPECT_TRUE(ParseRecipeText("tool.recipe", "BF16 --allow-requantize")->allow_requantize);
  EXPECT_FALSE(ParseRecipeText("tool.recipe", "BF16")->allow_requantize);
  options.recipe = "Q4_0";
  EXPECT_EQ(RecipeText(options), "Q4_0");
  EXPECT_TRUE(ParseRecipeText("tool.recipe", "Q4_0")->allow_requantize);
}

TEST(ParseRecipeText, RefusesTextThatIsNeverWritten) {
  for (const char* text :
       {"", "--experts-type q5_K", "q4_0", "Q4_0 --output-tensor-type f16 --trunk-type f16",
        "--pure", "--no-repack", "Q4_0 --pure ", "exact --experts-type q5_K --pure q4_0"}) {
    const Result<RecipeOptions> read = ParseRecipeText("tool.recipe", text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, Code::kCorrupt);
    EXPECT_EQ(read.error().message.rfind("tool.recipe: expected a recipe", 0), 0u);
  }
}

}  // namespace
}  // namespace moepack
