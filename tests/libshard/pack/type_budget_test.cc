#include "libshard/pack/type_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "libshard/base/files/memory_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

// Two columns everywhere, F32, in memory.
class ResidualSharesOf : public ::testing::Test {
 protected:
  ResidualSharesOf() {
    typed_.imatrix.emplace();
    typed_.model.metadata.Set("general.architecture", GgufValue::String("x"));
    typed_.model.metadata.Set("x.expert_used_count", GgufValue::U32(2));
    Add("token_embd.weight", {2, 2}, {1, 2, 2, 1}, {});  // 5 on average
  }

  GgufTensor& Add(const std::string& name, std::vector<uint64_t> shape,
                  const std::vector<float>& values, std::vector<float> means) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    const auto file = static_cast<uint32_t>(sources_.size());
    GgufTensor tensor;
    tensor.name = name;
    tensor.shape = std::move(shape);
    tensor.stored = tensor.type = quant::FindFormat("f32");
    tensor.sources = {{file, 0, bytes.size(), 0}};
    sources_.push_back(std::make_shared<MemorySource>(name, std::move(bytes)));
    if (name.starts_with("blk.")) tensor.layer = static_cast<uint32_t>(name[4] - '0');
    if (name.find("_exps") != name.npos) tensor.part = Part::kExpert;
    if (!means.empty()) {
      auto importance = std::make_shared<Importance>();
      importance->row_values = 2;
      importance->values = std::move(means);
      tensor.importance = std::move(importance);
    }
    typed_.model.tensors.push_back(std::move(tensor));
    return typed_.model.tensors.back();
  }

  // Attention adds 4 x (1 + 4) = 20 to the layer's stream: rows (1, 0) and (0, 2), inputs of 4.
  void AddAttention(const std::string& block) {
    Add(block + "attn_output.weight", {2, 2}, {1, 0, 0, 2}, {4, 4});
  }
  // Expert 0 has three tokens and an energy of 2 x 8, expert 1 has one and 2 x 24; two are chosen.
  void AddExperts(const std::string& block) {
    const std::string name = block + "ffn_down_exps.weight";
    Add(name, {2, 2, 2}, {2, 0, 0, 2, 2, 0, 0, 2}, {2, 2, 6, 6});
    typed_.imatrix->entries[name] = {{6, 6, 6, 6}, {3, 1}};
  }
  ResidualShares Measured() {
    const auto shares = MeasureResidualShares(typed_, sources_, 64);
    EXPECT_TRUE(shares) << (shares ? "" : shares.error().message);
    return shares ? *shares : ResidualShares();
  }

  TypedGguf typed_;
  std::vector<ByteSourcePtr> sources_;
};

TEST_F(ResidualSharesOf, EveryBlockAddsToTheResidualStream) {
  AddAttention("blk.0.");
  AddExperts("blk.0.");
  AddAttention("blk.1.");
  const ResidualShares shares = Measured();
  ASSERT_EQ(shares.size(), 2u);
  // Rows of the experts have 8, 8, 24, 24, weighted by three and one tokens: 12. Twice that, by two
  // equal gates: 12.
  EXPECT_DOUBLE_EQ(shares.at(0).attention, 20.0 / 25);
  EXPECT_DOUBLE_EQ(shares.at(0).experts, 12.0 / 37);
  EXPECT_DOUBLE_EQ(shares.at(1).attention, 20.0 / 57);
}

TEST_F(ResidualSharesOf, SharedExpertsWriteTogetherWithTheRoutedOnes) {
  AddExperts("blk.0.");
  Add("blk.0.ffn_down_shexp.weight", {2, 2}, {1, 0, 0, 1}, {4, 4});
  const ResidualShares shares = Measured();
  EXPECT_DOUBLE_EQ(shares.at(0).experts, 12.0 / 25);
  EXPECT_DOUBLE_EQ(shares.at(0).shared, 8.0 / 25);
}

TEST_F(ResidualSharesOf, TakeFactorsOfTheModelIntoAccount) {
  AddAttention("blk.0.");
  typed_.model.metadata.Set("x.embedding_scale", GgufValue::F32(2));
  typed_.model.metadata.Set("x.residual_scale", GgufValue::F32(0.5f));
  EXPECT_DOUBLE_EQ(Measured().at(0).attention, 5.0 / 25);
}

TEST_F(ResidualSharesOf, AreUnknownWithoutMomentsOfEveryBlock) {
  AddAttention("blk.0.");
  AddExperts("blk.0.");
  typed_.model.tensors.back().importance = nullptr;
  EXPECT_TRUE(Measured().empty());
  typed_.imatrix.reset();
  EXPECT_TRUE(Measured().empty());
}

TEST_F(ResidualSharesOf, GiveEveryMatrixTheShareOfItsBlock) {
  const ResidualShares shares = {{1, {0.5, 0.25, 0.125}}};
  const auto share = [&](const std::string& name) {
    return ShareOf(shares, Add(name, {1, 2}, {1, 1}, {}));
  };
  EXPECT_EQ(share("blk.1.attn_q.weight"), 0.5);
  EXPECT_EQ(share("blk.1.ffn_gate_exps.weight"), 0.25);
  EXPECT_EQ(share("blk.1.ffn_up_shexp.weight"), 0.125);
  EXPECT_EQ(share("blk.1.ffn_gate.weight"), 0.125);
  EXPECT_EQ(share("blk.2.attn_q.weight"), 1);
  EXPECT_EQ(share("output.weight"), 1);
}

TEST_F(ResidualSharesOf, WeightsThatAreNotFiniteAreRefusedByName) {
  Add("blk.0.attn_output.weight", {1, 2}, {1, std::stof("nan")}, {1, 1});
  const auto shares = MeasureResidualShares(typed_, sources_, 64);
  ASSERT_FALSE(shares);
  EXPECT_EQ(shares.error().message,
            "blk.0.attn_output.weight: row 0: expected finite values, found nan");
}

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
  Result<TypeBudget> Spend(uint64_t bytes, std::vector<const char*> expert_types = {}) {
    TypeBudgetOptions options;
    options.bytes = bytes;
    for (const char* name : expert_types) options.expert_types.push_back(KnownType(name));
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

TEST_F(TypeBudgets, GiveExpertsTheTypesThatWereNamed) {
  const auto budget = Spend(BytesOf(Typed({})) * 4 / 10, {"q2_K", "iq3_s"});
  ASSERT_TRUE(budget) << budget.error().message;
  size_t named = 0;
  for (const BudgetedPart& part : budget->parts) {
    if (part.part != "down" && part.part != "gate, up") continue;
    // q8_0 is the recipe's own choice, which always stays possible.
    EXPECT_THAT(part.type, ::testing::AnyOf("q2_K", "iq3_s", "q8_0"));
    named += part.type == "iq3_s";
  }
  EXPECT_GT(named, 0u);
}

TEST_F(TypeBudgets, ATypeThatNeedsImportanceIsRefusedWithoutIt) {
  const auto refused = Spend(BytesOf(Typed({})), {"q4_K", "iq2_xs"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "tensor \"blk.0.ffn_down_exps.weight\": --budget: expected an importance matrix with "
            "data for it to make iq2_xs of it, found none");
  EXPECT_THAT(refused.error().hint, ::testing::HasSubstr("give --imatrix FILE"));
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
