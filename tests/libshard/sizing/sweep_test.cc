#include "libshard/sizing/sweep.h"

#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/libshard/sizing/model_to_fit.h"

namespace moepack {
namespace {

std::string TextOf(const SweepTable& table) {
  std::string text;
  for (const SweepRow& row : table.rows) {
    text += Cat(row.groups, " ", row.recipe, " ", row.need.eligible, row.fits ? "" : " no", "; ");
  }
  return text;
}

// The same capture whatever the largest number of groups is.
MakeCapture Always(ExpectedCapture capture) {
  return [capture](uint32_t) -> Result<ExpectedCapture> { return capture; };
}

TEST(Sweep, NodesHoldTheirShareWithoutABudget) {
  const ModelToFit fit;
  const auto table = Sweep(fit.model(), {.groups = {1, 3, 4, 5}, .recipes = {"", "Q8_0"}});
  ASSERT_TRUE(table) << table.error().message;
  // Five groups of eight experts would leave two for each node, which is top-k; none is left out.
  EXPECT_EQ(TextOf(*table), "1  8; 3  3; 4  2; 5  2; 1 Q8_0 8; 3 Q8_0 3; 4 Q8_0 2; 5 Q8_0 2; ");
  EXPECT_EQ(table->rows[5].need.weights.total(), TotalOf(fit.Sizer(), 3));
}

TEST(Sweep, ListsRowsThatFitTheBudgetFirstAndThoseWithMoreExpertsBeforeFewer) {
  const ModelToFit fit;
  SweepOptions options{.groups = {1, 2}, .recipes = {"Q8_0", "Q6_K"}};
  options.extras.buffers = 1000;
  options.budget = TotalOf(fit.Sizer("Q8_0"), 4) + 1000;
  const auto table = Sweep(fit.model(), options);
  ASSERT_TRUE(table) << table.error().message;
  const auto halves =
      FitNodes(fit.model(), fit.Sizer("Q6_K"), {*options.budget}, options.extras, 0);
  ASSERT_TRUE(halves);
  const uint32_t eligible = halves->front().need.eligible;
  EXPECT_GT(eligible, 4u);
  EXPECT_LT(eligible, 8u);
  EXPECT_EQ(TextOf(*table), Cat("2 Q6_K ", eligible, "; 2 Q8_0 4; 1 Q8_0 8 no; 1 Q6_K 8 no; "));
}

TEST(Sweep, RanksByCaptureBeforeTheNumberOfExperts) {
  const ModelToFit fit;
  SweepOptions options{.groups = {1, 2}, .recipes = {"Q8_0"}};
  options.capture = Always([](uint32_t groups, uint32_t eligible) -> std::optional<double> {
    return groups == 2 && eligible == 4 ? 0.9 : 0.5;
  });
  const auto table = Sweep(fit.model(), options);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(TextOf(*table), "2 Q8_0 4; 1 Q8_0 8; ");
  EXPECT_EQ(table->rows[0].capture, 0.9);
}

TEST(Sweep, RanksByDamageBeforeTheNumberOfExperts) {
  const ModelToFit fit;
  SweepOptions options{.groups = {2, 4}, .recipes = {"Q6_K", "Q8_0", ""}};
  std::vector<std::string> asked;
  options.damage = [&](const std::string& recipe) -> Result<double> {
    asked.push_back(recipe);
    return recipe == "Q8_0" ? 0.25 : 0.5;
  };
  const auto table = Sweep(fit.model(), options);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(TextOf(*table), "2  4; 4  2; 2 Q8_0 4; 4 Q8_0 2; 2 Q6_K 4; 4 Q6_K 2; ");
  EXPECT_EQ(table->rows[0].damage, 0.0);
  EXPECT_EQ(table->rows[2].damage, 0.25);
  EXPECT_EQ(asked, (std::vector<std::string>{"Q6_K", "Q8_0"}));  // once each
}

TEST(Sweep, RanksByCaptureBeforeDamage) {
  const ModelToFit fit;
  SweepOptions options{.groups = {1, 2}, .recipes = {"Q8_0", ""}};
  options.capture = Always(
      [](uint32_t groups, uint32_t) -> std::optional<double> { return groups == 1 ? 0.9 : 0.5; });
  options.damage = [](const std::string&) -> Result<double> { return 0.5; };
  const auto table = Sweep(fit.model(), options);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(TextOf(*table), "1  8; 1 Q8_0 8; 2  4; 2 Q8_0 4; ");
}

// A file that cannot be read is not a reason to leave a recipe out.
TEST(Sweep, ADamageThatCannotBeMeasuredIsAnError) {
  const ModelToFit fit;
  SweepOptions options{.groups = {1}, .recipes = {"", "Q8_0"}};
  options.damage = [](const std::string& recipe) -> Result<double> {
    return Error{Code::kIo, recipe + ": cannot be read"};
  };
  const auto table = Sweep(fit.model(), options);
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code, Code::kIo);
  EXPECT_EQ(table.error().message, "Q8_0: cannot be read");
}

TEST(Sweep, NotesGroupCountsThatAreLeftOut) {
  const ModelToFit fit("qwen3-moe", {.layers = 2, .experts = 8, .top_k = 3, .sparse = true});
  const auto table = Sweep(fit.model(), {.groups = {2, 4, 9}, .recipes = {"", ""}});
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(TextOf(*table), "2  4; 2  4; ");
  EXPECT_EQ(table->notes,
            (std::vector<std::string>{"4 groups: left out: each would hold 2 of 8 experts per "
                                      "layer, and a token uses 3",
                                      "9 groups: left out: there are 8 experts in the smallest "
                                      "layer"}));
}

TEST(Sweep, GroupCountsThatAreLeftOutDoNotCountForTheCapture) {
  const ModelToFit fit;
  SweepOptions options{.groups = {3, 9, 2}, .recipes = {"", "Q8_0"}};
  std::vector<uint32_t> most;
  options.capture = [&](uint32_t most_groups) -> Result<ExpectedCapture> {
    most.push_back(most_groups);
    return ExpectedCapture([](uint32_t, uint32_t) { return 0.5; });
  };
  ASSERT_TRUE(Sweep(fit.model(), options));
  EXPECT_EQ(most, (std::vector<uint32_t>{3}));
}

TEST(Sweep, AnImpossibleRecipeIsOnlyNotedUnlessItWasNamed) {
  const ModelToFit fit("jamba", {.sparse = true});
  SweepOptions options{.groups = {1}, .recipes = {"", "Q8_0"}};
  const auto table = Sweep(fit.model(), options);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->rows.size(), 1u);
  ASSERT_EQ(table->notes.size(), 1u);
  EXPECT_TRUE(table->notes[0].starts_with("Q8_0: left out: ")) << table->notes[0];
  options.all_recipes_named = true;
  EXPECT_FALSE(Sweep(fit.model(), options));
}

TEST(Sweep, RefusesGroupCountsThatLeaveNoRows) {
  const ModelToFit fit;
  const auto table = Sweep(fit.model(), {.groups = {9}, .recipes = {""}});
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().message,
            "--sweep: expected a number of groups and a recipe that the model can have, found "
            "none");
  EXPECT_EQ(table.error().hint, "9 groups: left out: there are 8 experts in the smallest layer");
}

}  // namespace
}  // namespace moepack
