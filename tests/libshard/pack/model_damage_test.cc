#include "libshard/pack/model_damage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/memory_tree.h"
#include "libshard/check/promised_model.h"
#include "libshard/convert/row_reader.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

// A matrix of F32 rows in memory.
class TypeDamage : public ::testing::Test {
 protected:
  void Set(std::vector<uint64_t> shape, const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    const uint64_t size = bytes.size();
    sources_ = {std::make_shared<MemorySource>("m", std::move(bytes))};
    tensor_.name = "blk.0.ffn_up.weight";
    tensor_.shape = std::move(shape);
    tensor_.stored = tensor_.type = quant::FindFormat("f32");
    tensor_.sources = {{0, 0, size, 0}};
  }
  void Weigh(std::vector<float> means) {
    auto importance = std::make_shared<Importance>();
    importance->row_values = tensor_.row_values();
    importance->values = std::move(means);
    tensor_.importance = importance;
  }
  Result<std::vector<double>> Measure(const std::vector<const char*>& names,
                                      std::vector<float> slices = {}, uint32_t rows = 64) {
    std::vector<const quant::Format*> types;
    for (const char* name : names) types.push_back(quant::FindFormat(name));
    return MeasureDamage(tensor_, types, {sources_, slices, rows});
  }
  double One(const char* name, std::vector<float> slices = {}, uint32_t rows = 64) {
    const auto damage = Measure({name}, std::move(slices), rows);
    EXPECT_TRUE(damage) << (damage ? "" : damage.error().message);
    return damage ? (*damage)[0] : -1;
  }
  GgufTensor tensor_;
  std::vector<ByteSourcePtr> sources_;
};

// Rows of 256 values between -1 and 1.
std::vector<float> Waves(size_t rows) {
  std::vector<float> values(rows * 256);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i * i % 1009)));
  return values;
}

TEST_F(TypeDamage, IsTheErrorRelativeToTheValues) {
  // In bf16, 1 + 2^-9 becomes 1: the error is 2^-9 of it. 2 stays 2.
  Set({1, 2}, {1 + 0x1p-9f, 2});
  const double first = (1 + 0x1p-9) * (1 + 0x1p-9);
  EXPECT_DOUBLE_EQ(One("bf16"), 0x1p-18 / (first + 4));
  EXPECT_EQ(One("f32"), 0);
}

TEST_F(TypeDamage, WeightsColumnsByTheirInputs) {
  Set({1, 2}, {1 + 0x1p-9f, 2});
  Weigh({0, 1});
  EXPECT_EQ(One("bf16"), 0);
  Weigh({1, 0});
  EXPECT_DOUBLE_EQ(One("bf16"), 0x1p-18 / ((1 + 0x1p-9) * (1 + 0x1p-9)));
}

TEST_F(TypeDamage, WeightsExpertsByTheirTokens) {
  Set({2, 1, 1}, {1 + 0x1p-9f, 2});
  const double first = (1 + 0x1p-9) * (1 + 0x1p-9);
  EXPECT_DOUBLE_EQ(One("bf16", {3, 1}), 3 * 0x1p-18 / (3 * first + 4));
  EXPECT_EQ(One("bf16", {0, 1}), 0);
}

TEST_F(TypeDamage, IsSmallerWithMoreBits) {
  Set({8, 256}, Waves(8));
  const auto damage = Measure({"q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "q8_0"});
  ASSERT_TRUE(damage);
  EXPECT_LT((*damage)[0], 0.2);
  for (size_t i = 1; i < damage->size(); ++i) EXPECT_LT((*damage)[i], (*damage)[i - 1] / 2) << i;
}

TEST_F(TypeDamage, CanBeEstimatedFromAFewRows) {
  Set({4, 100, 256}, Waves(400));
  EXPECT_NEAR(One("q4_K", {}, 16) / One("q4_K", {}, 400), 1, 0.1);
}

TEST_F(TypeDamage, IsTheSameForRowsOfAReader) {
  Set({8, 256}, Waves(8));
  const double plain = One("q4_K");
  tensor_.reader = PlainRows(quant::FindFormat("f32"), 0, 0, 8, 256);
  tensor_.rows = {{4, 4, 0}, {0, 4, 0}};
  EXPECT_NEAR(One("q4_K"), plain, 1e-12);
}

TEST_F(TypeDamage, IsZeroForAMatrixOfZeros) {
  Set({2, 256}, std::vector<float>(512));
  EXPECT_EQ(One("q4_K"), 0);
}

TEST_F(TypeDamage, RefusesValuesThatAreNotFinite) {
  Set({2, 2}, {1, 2, std::numeric_limits<float>::infinity(), 3});
  const auto damage = Measure({"bf16"});
  ASSERT_FALSE(damage);
  EXPECT_EQ(damage.error().code, Code::kCorrupt);
  EXPECT_EQ(damage.error().message,
            "blk.0.ffn_up.weight: row 1: expected finite values, found inf");
}

TEST_F(TypeDamage, ATensorThatIsTooShortIsNamed) {
  Set({4, 1}, {1, 2});
  const auto damage = Measure({"bf16"});
  ASSERT_FALSE(damage);
  EXPECT_EQ(damage.error().message, "blk.0.ffn_up.weight: expected more than 2 rows, found fewer");
}

constexpr const char* kTinyModel = MOEPACK_SOURCE_DIR "/fixtures/tiny-moe";

class ModelDamage : public ::testing::Test {
 protected:
  ModelDamage() {
    auto model = MoeModel::Open(fs::path(kTinyModel));
    EXPECT_TRUE(model);
    model_.emplace(*std::move(model));
  }
  TypedGguf Typed(const std::string& recipe) const {
    QuantizeOptions options;
    options.recipe.recipe = recipe;
    auto typed = PrepareGguf(*model_, options);
    EXPECT_TRUE(typed) << (typed ? "" : typed.error().message);
    return *std::move(typed);
  }
  double Of(const std::string& recipe, size_t jobs = 1) const {
    const auto damage = DamageOfTypes(*model_, Typed(recipe), 16, jobs);
    EXPECT_TRUE(damage) << (damage ? "" : damage.error().message);
    return damage ? *damage : -1;
  }
  std::optional<MoeModel> model_;
};

TEST_F(ModelDamage, IsTheSumOverAllMatrices) {
  const TypedGguf typed = Typed("Q8_0");
  const auto sources = OpenWeights(*model_);
  ASSERT_TRUE(sources);
  double sum = 0;
  for (const GgufTensor& tensor : typed.model.tensors) {
    if (!MayChange(tensor)) continue;
    const auto damage = MeasureDamage(tensor, std::span(&tensor.type, 1), {*sources, {}, 16});
    ASSERT_TRUE(damage) << damage.error().message;
    sum += (*damage)[0];
  }
  EXPECT_GT(sum, 0);
  EXPECT_EQ(Of("Q8_0"), sum);
}

TEST_F(ModelDamage, IsSmallerForFinerTypes) {
  EXPECT_LT(Of("Q8_0"), Of("Q4_K_M"));
  EXPECT_LT(Of("Q4_K_M"), Of("Q2_K"));
}

TEST_F(ModelDamage, IsZeroForLosslessTypes) { EXPECT_EQ(Of("exact"), 0); }

TEST_F(ModelDamage, IsTheSameForEveryNumberOfThreads) {
  EXPECT_EQ(Of("Q4_K_M", 1), Of("Q4_K_M", 3));
}

TEST_F(ModelDamage, CannotBeMeasuredFromAConfigAlone) {
  const fixtures::TempDir directory;
  fs::copy(fs::path(kTinyModel) / "config.json", directory / "config.json");
  const auto source = LocalSource((directory / "config.json").string());
  ASSERT_TRUE(source);
  const auto promised = OpenPromised(*source, "config.json", {});
  ASSERT_TRUE(promised) << promised.error().message;
  const auto weights = OpenWeights(promised->model);
  ASSERT_FALSE(weights);
  EXPECT_EQ(weights.error().code, Code::kUnsupported);
  EXPECT_EQ(weights.error().message, promised->model.checkpoint().source().string() +
                                         ": expected weights to measure, found a config alone");
}

}  // namespace

}  // namespace moepack
