#include "libshard/pack/model_damage.h"

#include <gtest/gtest.h>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/check/promised_model.h"
#include "libshard/pack/type_damage.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

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
