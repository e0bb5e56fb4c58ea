#include "libshard/recipe/recipe_override.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/recipe/recipe_model.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> TypesOf(const std::vector<std::string>& texts) {
  const auto rules = ParseTensorTypes(texts);
  EXPECT_TRUE(rules) << rules.error().message;
  std::vector<std::string> types;
  if (!rules) return types;
  for (const TypeOverride& rule : *rules) types.emplace_back(rule.type->name);
  return types;
}

std::string RecipeOverrideErrorOf(const std::string& text) {
  const auto rules = ParseTensorTypes({text});
  if (rules) return "";
  EXPECT_EQ(rules.error().code, Code::kInvalidArgument);
  return rules.error().message;
}

RecipeOptions Options(const std::vector<std::string>& tensor_types, const std::string& recipe) {
  RecipeOptions options;
  options.recipe = recipe;
  options.tensor_types = tensor_types;
  return options;
}

TEST(TypeOverrides, ReadsLlamaCppsSpelling) {
  EXPECT_THAT(TypesOf({"attn_q=q8_0", "blk\\.[0-3]\\.ffn_down=Q6_K"}), ElementsAre("q8_0", "q6_K"));
}

TEST(TypeOverrides, ReadsIkLlamaCppsSpellingWithCommentsAndLines) {
  EXPECT_THAT(
      TypesOf({"# attention\n"
               "blk\\..*\\.attn_.*=q8_0\n"
               "\n"
               "# experts, # twice\n"
               "blk\\..*\\.ffn_down_exps\\.weight=iq4_xs,blk\\..*\\.ffn_(gate|up)_exps=q4_K,\r\n"
               "token_embd\\.weight=q4_k  # at the end\n"}),
      ElementsAre("q8_0", "iq4_xs", "q4_K", "q4_K"));
}

TEST(TypeOverrides, DoesNotSplitAtCommasInsideAnExpression) {
  EXPECT_THAT(TypesOf({"blk\\.[0-9]{1,2}\\.x=q8_0,[a,b]=q6_K,\\[c=q5_K"}),
              ElementsAre("q8_0", "q6_K", "q5_K"));
}

TEST(TypeOverrides, LowersTheCaseOfPatternsButNotOfClasses) {
  GgufModel model = RecipeModel({.layers = 1});
  auto overrides =
      TypeOverrides::Make(Options({"BLK\\.\\d\\.ATTN_Q=q8_0,^\\Doken=q6_K"}, "Q4_K_M"), model)
          .value();
  EXPECT_EQ(overrides.Find(TensorOf(model, "blk.0.attn_q.weight")).value()->type->name, "q8_0");
  EXPECT_EQ(overrides.Find(TensorOf(model, "token_embd.weight")).value()->type->name, "q6_K");
}

TEST(TypeOverrides, LetsTheFirstRuleThatMatchesDecide) {
  GgufModel model = RecipeModel({.layers = 2});
  auto overrides =
      TypeOverrides::Make(Options({"blk.0.attn=q8_0", "attn_q=q6_K,attn_k=q5_K"}, "Q4_K_M"), model)
          .value();
  EXPECT_EQ(overrides.Find(TensorOf(model, "blk.0.attn_q.weight")).value()->type->name, "q8_0");
  EXPECT_EQ(overrides.Find(TensorOf(model, "blk.1.attn_q.weight")).value()->type->name, "q6_K");
  EXPECT_EQ(overrides.Find(TensorOf(model, "blk.1.attn_v.weight")).value(), nullptr);
}

TEST(TypeOverrides, AppliesExpressionsBeforeOutputAndOutputBeforeParts) {
  GgufModel model = RecipeModel({.layers = 1});
  RecipeOptions options = Options({"attn_q=q5_0"}, "Q4_K_M");
  options.output_type = "q8_0";
  options.embedding_type = "q5_1";
  options.trunk_type = "f16";
  options.experts_type = "q3_K";
  auto overrides = TypeOverrides::Make(options, model).value();
  const auto type = [&](const char* name) {
    return overrides.Find(TensorOf(model, name)).value()->type->name;
  };
  EXPECT_EQ(type("blk.0.attn_q.weight"), "q5_0");
  EXPECT_EQ(type("output.weight"), "q8_0");
  EXPECT_EQ(type("token_embd.weight"), "q5_1");
  EXPECT_EQ(type("blk.0.attn_v.weight"), "f16");
  EXPECT_EQ(type("blk.0.ffn_up_exps.weight"), "q3_K");
  EXPECT_TRUE(overrides.CheckAllUsed());
}

TEST(TypeOverrides, GivesATiedEmbeddingTheTypeOfTheOutputUnlessItHasItsOwn) {
  const GgufModel model = RecipeModel({.layers = 1, .output = false});
  RecipeOptions options = Options({}, "Q4_K_M");
  options.output_type = "q8_0";
  auto tied = TypeOverrides::Make(options, model).value();
  EXPECT_EQ(tied.Find(TensorOf(model, "token_embd.weight")).value()->type->name, "q8_0");
  options.embedding_type = "q5_K";
  auto own = TypeOverrides::Make(options, model).value();
  EXPECT_EQ(own.Find(TensorOf(model, "token_embd.weight")).value()->type->name, "q5_K");
  EXPECT_THAT(own.CheckAllUsed().error().message,
              HasSubstr("--output-tensor-type: expected a tensor"));
}

TEST(TypeOverrides, RefusesARuleThatMatchesNothing) {
  const GgufModel model = RecipeModel({.layers = 1});
  auto overrides =
      TypeOverrides::Make(Options({"attn_q=q8_0,ffn_dwon=q6_K"}, "Q4_K_M"), model).value();
  for (const GgufTensor& tensor : model.tensors) ASSERT_TRUE(overrides.Find(tensor));
  const Status used = overrides.CheckAllUsed();
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code, Code::kInvalidArgument);
  EXPECT_THAT(
      used.error().message,
      HasSubstr("--tensor-type \"ffn_dwon=q6_K\": expected a tensor that may get this type"));
}

TEST(TypeOverrides, RefusesARuleForTensorsThatKeepTheirTypeUnlessItNamesThatType) {
  const GgufModel model = RecipeModel({.layers = 1});
  const auto used = [&](const std::string& rule) {
    auto overrides = TypeOverrides::Make(Options({rule}, "Q4_K_M"), model).value();
    for (const GgufTensor& tensor : model.tensors) {
      EXPECT_EQ(overrides.Find(tensor).value(), nullptr);
    }
    return overrides.CheckAllUsed().has_value();
  };
  EXPECT_FALSE(used("ffn_gate_inp=q8_0"));
  EXPECT_TRUE(used("ffn_gate_inp=f32"));
}

TEST(TypeOverrides, NamesRulesThatDecideOnNothing) {
  const GgufModel model = RecipeModel({.layers = 1});
  const auto hidden = [&](const std::string& rules) {
    auto overrides = TypeOverrides::Make(Options({rules}, "Q4_K_M"), model).value();
    for (const GgufTensor& tensor : model.tensors) EXPECT_TRUE(overrides.Find(tensor));
    return overrides.HiddenRules();
  };
  EXPECT_EQ(hidden("attn_q=q6_K,attn=q8_0"), "");
  EXPECT_EQ(hidden("attn=q8_0,attn_q=q6_K"),
            "--tensor-type \"attn_q=q6_K\": no tensor gets this type, because earlier rules match "
            "first");
  EXPECT_EQ(hidden("attn=q8_0,attn_q=q6_K,attn_k=q6_K"),
            "--tensor-type \"attn_q=q6_K\" and 1 other rule: no tensor gets this type, because "
            "earlier rules match first");
}

TEST(TypeOverrides, CountsAShadowedRuleAsUsed) {
  const GgufModel model = RecipeModel({.layers = 1});
  auto overrides = TypeOverrides::Make(Options({"attn=q8_0,attn_q=q6_K"}, "Q4_K_M"), model).value();
  for (const GgufTensor& tensor : model.tensors) ASSERT_TRUE(overrides.Find(tensor));
  EXPECT_TRUE(overrides.CheckAllUsed());
}

TEST(TypeOverrides, NamesTheRuleAtFault) {
  EXPECT_EQ(RecipeOverrideErrorOf("attn_q"),
            "--tensor-type \"attn_q\": expected REGEX=TYPE, found no =");
  EXPECT_EQ(RecipeOverrideErrorOf("=q8_0"),
            "--tensor-type \"=q8_0\": expected REGEX=TYPE, found no expression");
  EXPECT_THAT(RecipeOverrideErrorOf("attn_q="),
              HasSubstr("--tensor-type \"attn_q=\": type: expected one of f32"));
  EXPECT_THAT(RecipeOverrideErrorOf("a=q8_0,b=q1_0"),
              HasSubstr("--tensor-type \"b=q1_0\": type: expected one of"));
  EXPECT_THAT(RecipeOverrideErrorOf("blk\\.(0=q8_0"),
              HasSubstr("found at byte 7: missing closing parenthesis"));
  EXPECT_THAT(RecipeOverrideErrorOf("  # nothing\n,"),
              HasSubstr("expected REGEX=TYPE, found no rule"));
  EXPECT_THAT(RecipeOverrideErrorOf(""), HasSubstr("found no rule"));
}

TEST(TypeOverrides, NamesTheRuleThatTakesTooLong) {
  const GgufModel model = RecipeModel({.layers = 1});
  auto overrides =
      TypeOverrides::Make(Options({"^(?:[a-z._0-9]+)+[!?]=q8_0"}, "Q4_K_M"), model).value();
  const auto found = overrides.Find(TensorOf(model, "blk.0.attn_q.weight"));
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("--tensor-type \"^(?:[a-z._0-9]+)+[!?]=q8_0\": "));
  EXPECT_THAT(found.error().message, HasSubstr("match limit exceeded"));
}

TEST(TypeOverrides, NamesTheOptionWithAWrongType) {
  const GgufModel model = RecipeModel({.layers = 1});
  RecipeOptions options = Options({}, "Q4_K_M");
  options.trunk_type = "q7";
  const auto overrides = TypeOverrides::Make(options, model);
  ASSERT_FALSE(overrides);
  EXPECT_THAT(overrides.error().message, HasSubstr("--trunk-type: type: expected one of"));
}

TEST(TypeOverrides, RefusesTooManyRules) {
  std::string text;
  for (int i = 0; i < 20'001; ++i) text += "a=q8_0 ";
  EXPECT_THAT(RecipeOverrideErrorOf(text), HasSubstr("expected at most 20000 rules"));
}

}  // namespace
}  // namespace moepack
