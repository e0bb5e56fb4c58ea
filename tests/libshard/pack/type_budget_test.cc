#include "libshard/pack/type_budget.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

constexpr const char* kTiny = MOEPACK_SOURCE_DIR "/fixtures/tiny-moe";

class TypeBudgets : public ::testing::Test {
 protected:
  TypeBudgets() {
    auto model = MoeModel::Open(fs::path(kTiny));
    EXPECT_TRUE(model);
    model_.emplace(*std::move(model));
  }
  TypedGguf Typed(const std::vector<std::string>& rules) {
    QuantizeOptions options;
    options.recipe.recipe = "Q8_0";
    options.recipe.tensor_types = rules;
    auto typed = PrepareGguf(*model_, options);
    EXPECT_TRUE(typed) << (typed ? "" : typed.error().message);
    return *std::move(typed);
  }
  static uint64_t BytesOf(const TypedGguf& typed) {
    uint64_t bytes = 0;
    for (const GgufTensor& tensor : typed.model.tensors) bytes += tensor.bytes();
    return bytes;
  }
  Result<TypeBudget> Spend(uint64_t bytes) {
    TypeBudgetOptions options;
    options.bytes = bytes;
    options.sample_rows = 16;
    options.jobs = 1;
    return SpendTypes(*model_, Typed({}), options);
  }
  std::optional<MoeModel> model_;
};

TEST_F(TypeBudgets, TheRulesGiveThePlannedBytes) {
  const uint64_t most = BytesOf(Typed({}));
  for (const uint64_t percent : {45, 60, 80, 100}) {
    const auto budget = Spend(most * percent / 100);
    ASSERT_TRUE(budget) << budget.error().message;
    EXPECT_LE(budget->bytes, most * percent / 100);
    EXPECT_EQ(BytesOf(Typed(budget->tensor_types)), budget->bytes);
    EXPECT_LE(budget->bound, budget->damage);
  }
}

TEST_F(TypeBudgets, MoreBytesCauseLessDamage) {
  const uint64_t most = BytesOf(Typed({}));
  double before = 1e9;
  for (const uint64_t percent : {45, 60, 80, 100}) {
    const auto budget = Spend(most * percent / 100);
    ASSERT_TRUE(budget);
    EXPECT_LT(budget->damage, before);
    before = budget->damage;
  }
}

TEST_F(TypeBudgets, ListThePartsOfEveryLayer) {
  const auto budget = Spend(BytesOf(Typed({})));
  ASSERT_TRUE(budget);
  std::vector<std::string> parts;
  for (const BudgetedPart& part : budget->parts)
    parts.push_back(Cat(part.layer ? Cat(*part.layer) : "-", " ", part.part, " ", part.type));
  EXPECT_THAT(parts, ::testing::ElementsAre("- embedding q8_0", "- output q8_0", "0 attention q8_0",
                                            "0 down q8_0", "0 gate, up q8_0", "1 attention q8_0",
                                            "1 down q8_0", "1 gate, up q8_0", "2 attention q8_0",
                                            "2 down q8_0", "2 gate, up q8_0"));
}

TEST_F(TypeBudgets, TheSameInputGivesTheSameRules) {
  const uint64_t bytes = BytesOf(Typed({})) / 2;
  const auto once = Spend(bytes), again = Spend(bytes);
  ASSERT_TRUE(once);
  ASSERT_TRUE(again);
  EXPECT_EQ(once->tensor_types, again->tensor_types);
}

TEST_F(TypeBudgets, LimitTheLargestNodeOfAPlan) {
  PlanOptions halves;
  halves.groups = 2;
  const auto plan = MakePlan(*model_, halves);
  ASSERT_TRUE(plan) << plan.error().message;
  TypeBudgetOptions options;
  options.bytes = BytesOf(Typed({})) / 2;
  options.plan = &*plan;
  options.sample_rows = 16;
  options.jobs = 1;
  const auto budget = SpendTypes(*model_, Typed({}), options);
  ASSERT_TRUE(budget) << budget.error().message;
  EXPECT_LE(budget->bytes, options.bytes);
  uint64_t bytes = 0;
  for (const GgufTensor& tensor : Typed(budget->tensor_types).model.tensors)
    bytes += tensor.expert_count > 0 ? tensor.bytes() / 2 : tensor.bytes();
  EXPECT_EQ(budget->bytes, bytes);
}

TEST_F(TypeBudgets, TooFewBytesAreRefusedWithTheRequiredMinimum) {
  const auto refused = Spend(1'000'000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  const std::string start = "budget: expected at least ";
  ASSERT_TRUE(refused.error().message.starts_with(start)) << refused.error().message;
  std::string least = refused.error().message.substr(start.size());
  EXPECT_THAT(least, ::testing::EndsWith(" bytes for the smallest types, found 1,000,000"));
  least = least.substr(0, least.find(' '));
  least.erase(std::remove(least.begin(), least.end(), ','), least.end());
  const uint64_t bytes = std::stoull(least);
  EXPECT_FALSE(Spend(bytes - 1));
  const auto enough = Spend(bytes);
  ASSERT_TRUE(enough) << enough.error().message;
  EXPECT_EQ(enough->bytes, bytes);
}

}  // namespace
}  // namespace moepack
