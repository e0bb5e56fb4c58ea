#include "libshard/fit/sweep.h"

#include <gtest/gtest.h>

#include "libshard/base/text.h"
#include "tests/libshard/fit/model_to_fit.h"

namespace moepack {
namespace {

std::string TextOf(const SweepTable& table) {
  std::string text;
  for (const SweepRow& row : table.rows) {
    text += Cat(row.groups, " ", row.recipe, " ", row.need.eligible, row.fits ? "" : " no", "; ");
  }
  return text;
}

TEST(Sweep, WithoutABudgetNodesHoldTheirShare) {
  const ModelToFit fit;
  const auto table = Sweep(fit.model(), {.groups = {1, 3, 4, 5}, .recipes = {"", "Q8_0"}});
  ASSERT_TRUE(table) << table.error().message;
  // Five groups of eight experts would leave two for each node, which is top-k; none is left out.
  EXPECT_EQ(TextOf(*table), "1  8; 3  3; 4  2; 5  2; 1 Q8_0 8; 3 Q8_0 3; 4 Q8_0 2; 5 Q8_0 2; ");
  EXPECT_EQ(table->rows[5].need.weights.total(), TotalOf(fit.Sizer(), 3));
}

TEST(Sweep, WithABudgetWhatFitsComesFirstAndMoreExpertsBeforeFewer) {
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

TEST(Sweep, CaptureDecidesBeforeTheNumberOfExperts) {
  const ModelToFit fit;
  SweepOptions options{.groups = {1, 2}, .recipes = {"Q8_0"}};
  options.capture = [](uint32_t groups, uint32_t eligible) -> std::optional<double> {
    return groups == 2 && eligible == 4 ? 0.9 : 0.5;
  };
  const auto table = Sweep(fit.model(), options);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(TextOf(*table), "2 Q8_0 4; 1 Q8_0 8; ");
  EXPECT_EQ(table->rows[0].capture, 0.9);
}

TEST(Sweep, ARecipeThatIsNotPossibleIsANoteUnlessItWasNamed) {
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

TEST(Sweep, NumbersOfGroupsThatLeaveNothingAreRefused) {
  const ModelToFit fit;
  const auto table = Sweep(fit.model(), {.groups = {9}, .recipes = {""}});
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().message,
            "--sweep: expected a number of groups and a recipe that the model can have, found "
            "none");
}

}  // namespace
}  // namespace moepack
