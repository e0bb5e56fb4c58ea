// Cases without a broken fixture: these need a family file, or tensors that only an attacker makes.
#include "libshard/model/layer_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"

namespace moepack {
namespace {

using testing::HasSubstr;

class LayerExpertsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fixtures::WriteFile(dir_ / "family.json", R"({
      "name": "toy", "prefixes": ["model."],
      "rules": [
        {"pattern": "l.{L}.experts.{E}.up", "part": "expert", "role": "up"},
        {"pattern": "l.{L}.packed", "part": "expert", "role": "down", "expert_axis": 0},
        {"pattern": "l.{L}.folded", "part": "expert", "role": "gate", "expert_axis": -1,
         "folded": true}]})"));
    options_.family_file = (dir_ / "family.json").string();
  }
  Result<MoeModel> Open(const std::vector<fixtures::RawTensor>& tensors) {
    EXPECT_TRUE(fixtures::WriteSafetensors(dir_ / "m.safetensors", tensors));
    return MoeModel::Open(dir_ / "m.safetensors", options_);
  }
  void ExpectError(const std::vector<fixtures::RawTensor>& tensors, Code code,
                   const std::string& message) {
    const auto model = Open(tensors);
    ASSERT_FALSE(model) << "the model was opened without an error";
    EXPECT_EQ(model.error().code, code) << model.error().message;
    EXPECT_THAT(model.error().message, HasSubstr("m.safetensors"));
    EXPECT_THAT(model.error().message, HasSubstr(message));
  }

  fixtures::TempDir dir_;
  ModelOptions options_;
};

TEST_F(LayerExpertsTest, OneExpertUnderTwoPrefixesIsCorrupt) {
  ExpectError({{"l.0.experts.0.up", "U8", {1}, "a"}, {"model.l.0.experts.0.up", "U8", {1}, "b"}},
              Code::kCorrupt, "layer 0: expert 0: expected one tensor up, found two");
  ExpectError({{"l.0.experts.0.up", "U8", {1}, "a"},
               {"l.0.experts.1.up", "U8", {1}, "b"},
               {"model.l.0.experts.0.up", "U8", {1}, "c"}},
              Code::kCorrupt, "layer 0: expert 0: expected one tensor up, found two");
}

TEST_F(LayerExpertsTest, AnIdBeyondAnyRouterIsCorrupt) {
  ExpectError({{"l.0.experts.65536.up", "U8", {1}, "a"}}, Code::kCorrupt,
              "expected an id below 65536, found 65536");
}

TEST_F(LayerExpertsTest, PackedAndExplicitExpertsOfALayerMustAgree) {
  const std::vector<fixtures::RawTensor> two = {{"l.0.experts.0.up", "U8", {1}, "a"},
                                                {"l.0.experts.1.up", "U8", {3}, "bcd"}};
  auto tensors = two;
  tensors.push_back({"l.0.packed", "U8", {2, 4}, "12345678"});
  const auto model = Open(tensors);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->layers()[0].expert_count, 2u);
  EXPECT_EQ(model->layers()[0].expert_bytes, 3u + 4u) << "the size of the largest expert";
  tensors = two;
  tensors.push_back({"l.0.packed", "U8", {3, 1}, "123"});
  ExpectError(tensors, Code::kCorrupt, "expected 2 experts as layer 0 has, found 3");
}

TEST_F(LayerExpertsTest, AMissingExpertAxisIsCorrupt) {
  ExpectError({{"l.0.packed", "U16", {}, "ab"},
               {"l.0.experts.0.up", "U8", {1}, "a"},
               {"l.0.experts.1.up", "U8", {1}, "a"},
               {"l.1.packed", "U8", {0, 2}, ""}},
              Code::kCorrupt,
              "expert axis 0 of shape [0, 2]: expected 1 to 65536 experts, found 0");
}

TEST_F(LayerExpertsTest, FoldedExpertsNeedAConfigThatCountsThem) {
  ExpectError({{"l.0.folded", "U8", {2, 6}, std::string(12, 'f')}}, Code::kUnsupported,
              "expected a config.json that says how many experts are packed here");
  ASSERT_TRUE(fixtures::WriteFile(dir_ / "config.json", R"({"num_hidden_layers": 1,
      "num_experts": 3, "num_experts_per_tok": 1, "architectures": ["Toy"]})"));
  const auto model = Open({{"l.0.folded", "U8", {2, 6}, std::string(12, 'f')}});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->layers()[0].expert_count, 3u);
  EXPECT_EQ(model->tensors()[0].axis, 1);
}

// Experts of which some are stored in another way than the rest.
class FormsOfExperts : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fixtures::WriteFile(dir_ / "family.json", R"({
      "name": "toy", "rules": [
        {"pattern": "l.{L}.experts.{E}.up.{W}", "part": "expert", "role": "up"}]})"));
    options_.family_file = (dir_ / "family.json").string();
  }
  void Add(int expert, const std::string& leaf, const std::string& dtype = "U8") {
    const std::string bytes(dtype == "BF16" ? 2 : 1, 'x');
    tensors_.push_back(
        {"l.0.experts." + std::to_string(expert) + ".up." + leaf, dtype, {1}, bytes});
  }
  // Experts 0 and 2 are packed, 1 is plain.
  void AddMixed() {
    for (const int expert : {0, 2}) {
      for (const char* leaf : {"qweight", "scales", "g_idx"}) Add(expert, leaf);
    }
    Add(1, "weight", "BF16");
  }
  Result<MoeModel> Open() {
    EXPECT_TRUE(fixtures::WriteSafetensors(dir_ / "m.safetensors", tensors_));
    return MoeModel::Open(dir_ / "m.safetensors", options_);
  }
  std::string ErrorText() {
    const auto model = Open();
    EXPECT_FALSE(model);
    if (model) return "";
    EXPECT_EQ(model.error().code, Code::kCorrupt);
    return model.error().message;
  }
  void Remove(const std::string& name) {
    std::erase_if(tensors_, [&](const auto& tensor) { return tensor.name == name; });
  }

  fixtures::TempDir dir_;
  ModelOptions options_;
  std::vector<fixtures::RawTensor> tensors_;
};

TEST_F(FormsOfExperts, AnExpertThatStayedAsItWasNeedsNoCompanions) {
  AddMixed();
  const auto model = Open();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->layers()[0].expert_count, 3u);
}

TEST_F(FormsOfExperts, ScaledExpertsMayStandBesidePlainOnes) {
  Add(0, "weight", "BF16");
  Add(1, "weight");
  Add(1, "weight_scale");
  const auto model = Open();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->layers()[0].expert_count, 2u);
}

TEST_F(FormsOfExperts, AMissingCompanionIsNamed) {
  AddMixed();
  Remove("l.0.experts.2.up.scales");
  EXPECT_THAT(ErrorText(), HasSubstr("layer 0: expert 2: expected one tensor up.scales, found none "
                                     "(the layer's ids reach 2)"));
}

TEST_F(FormsOfExperts, AnExpertInTwoFormsOrInNoneIsCorrupt) {
  AddMixed();
  for (const char* leaf : {"qweight", "scales", "g_idx"}) Add(1, leaf);
  EXPECT_THAT(ErrorText(), HasSubstr("expert 1: expected one tensor up.qweight, found two"));
  tensors_.clear();
  AddMixed();
  Add(4, "weight", "BF16");
  EXPECT_THAT(ErrorText(), HasSubstr("expert 3: expected one tensor up.qweight, found none"));
}

// Calibration writes scales of activations only for experts that it reached.
class CompanionsOfExperts : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fixtures::WriteFile(dir_ / "family.json", R"({
      "name": "toy", "rules": [
        {"pattern": "l.{L}.experts.{E}.up.{W}", "part": "expert", "role": "up"}]})"));
    options_.family_file = (dir_ / "family.json").string();
  }
  // Two experts, of which the first has one more tensor.
  Result<MoeModel> WithOneOf(const std::string& leaf) {
    EXPECT_TRUE(fixtures::WriteSafetensors(dir_ / "m.safetensors",
                                           {{"l.0.experts.0.up.weight", "U8", {1}, "a"},
                                            {"l.0.experts.1.up.weight", "U8", {1}, "b"},
                                            {"l.0.experts.0.up." + leaf, "U8", {1}, "c"}}));
    return MoeModel::Open(dir_ / "m.safetensors", options_);
  }

  fixtures::TempDir dir_;
  ModelOptions options_;
};

TEST_F(CompanionsOfExperts, ThatConversionIgnoresNeedNotBeComplete) {
  for (const char* leaf : {"input_scale", "input_global_scale", "activation_scale", "k_scale"}) {
    const auto model = WithOneOf(leaf);
    ASSERT_TRUE(model) << leaf << ": " << model.error().message;
    EXPECT_EQ(model->layers()[0].expert_count, 2u) << leaf;
  }
}

TEST_F(CompanionsOfExperts, ThatTheNumbersNeedMustBeComplete) {
  for (const char* leaf : {"weight_scale", "weight_scale_2", "weight_shape", "qzeros"}) {
    const auto model = WithOneOf(leaf);
    ASSERT_FALSE(model) << leaf;
    EXPECT_THAT(model.error().message,
                HasSubstr(std::string("expert 1: expected one tensor up.") + leaf));
  }
}

}  // namespace
}  // namespace moepack
