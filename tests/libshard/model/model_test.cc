#include "libshard/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/generator.h"
#include "fixtures/gguf_writer.h"
#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"

namespace moepack {
namespace {

using fixtures::TempDir;
using testing::HasSubstr;

constexpr const char* kTiny = MOEPACK_SOURCE_DIR "/fixtures/tiny-moe";

TEST(MoeModel, ReadsTheTinyModel) {
  const auto model = MoeModel::Open(kTiny);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->family().name, "qwen3-moe");
  ASSERT_EQ(model->layers().size(), 3u);
  for (const MoeLayer& layer : model->layers()) {
    EXPECT_EQ(layer.expert_count, 16u);
    EXPECT_EQ(layer.top_k, 2u);
    EXPECT_EQ(layer.expert_bytes, 3u * 256 * 256 * 2);
    EXPECT_FALSE(layer.mtp);
  }
  EXPECT_EQ(model->tensors().size(), model->checkpoint().tensors().size());
  EXPECT_EQ(model->FindLayer(3), nullptr);
  EXPECT_EQ(model->max_experts(), 16u);
  EXPECT_EQ(model->routing().gating, Gating::kSoftmax);
}

TEST(MoeModel, VersionChangesWithRevisionAndConfig) {
  const TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir.path()));
  const std::string before = MoeModel::Open(dir.path())->Version("");
  EXPECT_EQ(before.size(), 16u);
  EXPECT_EQ(MoeModel::Open(dir.path())->Version(""), before);
  EXPECT_NE(MoeModel::Open(dir.path())->Version("main"), before);
  std::ofstream(dir / "config.json", std::ios::app) << "\n";
  EXPECT_NE(MoeModel::Open(dir.path())->Version(""), before);
}

TEST(MoeModel, VersionDiffersBetweenFineTunes) {
  const TempDir dir;
  fixtures::Options options;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir / "a", options));
  options.seed = 2;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir / "b", options));
  EXPECT_NE(MoeModel::Open(dir / "a")->Version(""), MoeModel::Open(dir / "b")->Version(""));
  ModelOptions names;
  names.sample_weights = false;
  EXPECT_EQ(MoeModel::Open(dir / "a", names)->Version(""),
            MoeModel::Open(dir / "b", names)->Version(""));
}

TEST(MoeModel, RecognizesTheFamilyByTensorNamesWithoutAConfig) {
  const TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("mixtral", dir.path()));
  fs::remove(dir / "config.json");
  const auto model = MoeModel::Open(dir.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->layers()[0].top_k, 0u);
  EXPECT_THAT(model->warnings(), testing::Contains(HasSubstr("no config.json")));
}

TEST(MoeModel, UsesAConfigElsewhereIfGiven) {
  const TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("mixtral", dir / "model"));
  fs::rename(dir / "model/config.json", dir / "other.json");
  ModelOptions options;
  options.config_file = (dir / "other.json").string();
  const auto model = MoeModel::Open(dir / "model", options);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_GT(model->layers()[0].top_k, 0u);
  options.config_file = (dir / "absent.json").string();
  EXPECT_EQ(MoeModel::Open(dir / "model", options).error().code, Code::kNotFound);
}

// A packed tensor of two experts and its possible companions, in one layer of a family file's
// model.
class PackedScales : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fixtures::WriteFile(dir_ / "family.json", R"({
      "name": "toy", "routing": {"gating": "softmax", "normalize": true},
      "rules": [
        {"pattern": "l.{L}.router", "part": "router", "role": "router", "expert_axis": 0},
        {"pattern": "l.{L}.experts.up.{W}", "part": "expert", "role": "up", "expert_axis": 0}]})"));
    options_.family_file = (dir_ / "family.json").string();
  }
  Result<MoeModel> Open(const std::vector<fixtures::RawTensor>& scales) {
    std::vector<fixtures::RawTensor> tensors = {
        {"l.0.router", "U8", {2, 3}, std::string(6, 'r')},
        {"l.0.experts.up.weight", "U8", {2, 5}, std::string(10, 'w')}};
    tensors.insert(tensors.end(), scales.begin(), scales.end());
    EXPECT_TRUE(fixtures::WriteSafetensors(dir_ / "m.safetensors", tensors));
    return MoeModel::Open(dir_ / "m.safetensors", options_);
  }
  TempDir dir_;
  ModelOptions options_;
};

TEST_F(PackedScales, AreSplitIfThereIsOnePerExpertAndCopiedIfThereIsOneForAll) {
  const auto model = Open({{"l.0.experts.up.input_scale", "U8", {}, "i"},
                           {"l.0.experts.up.weight_scale", "U8", {2}, "ab"}});
  ASSERT_TRUE(model) << model.error().message;
  for (const ModelTensor& tensor : model->tensors()) {
    EXPECT_EQ(tensor.axis.has_value(), tensor.leaf != "input_scale") << model->entry(tensor).name;
    EXPECT_EQ(tensor.axis.value_or(0), 0u) << model->entry(tensor).name;
  }
}

TEST_F(PackedScales, AnyOtherCountIsCorrupt) {
  const auto model = Open({{"l.0.experts.up.weight_scale", "U8", {3}, "abc"}});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kCorrupt);
  EXPECT_THAT(model.error().message, HasSubstr("expected 2 (experts of layer 0), found 3"));
}

TEST(MoeModel, AnUnknownTensorIsAnErrorAndNamed) {
  const TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir.path()));
  fs::remove(dir / "model.safetensors.index.json");
  ASSERT_TRUE(fixtures::WriteSafetensors(dir / "zz.safetensors",
                                         {{"model.layers.0.mlp.new_experts.0.w", "U8", {1}, "x"}}));
  const auto model = MoeModel::Open(dir.path());
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kUnsupported);
  EXPECT_THAT(model.error().message, HasSubstr("\"model.layers.0.mlp.new_experts.0.w\""));
  EXPECT_THAT(model.error().hint, HasSubstr("--family"));
}

// MiniGguf on disk, opened.
class GgufModels : public testing::Test {
 protected:
  Result<MoeModel> Open(const fixtures::GgufFile& file, const ModelOptions& options = {}) {
    EXPECT_TRUE(fixtures::WriteFile(dir_ / "m.gguf", fixtures::GgufBytes(file)));
    return MoeModel::Open(dir_ / "m.gguf", options);
  }
  const TempDir dir_;
};

TEST_F(GgufModels, TakeTheirConfigFromTheMetadata) {
  const auto model = Open(fixtures::MiniGguf("deepseek2", 2, 4));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->family().name, "gguf");
  EXPECT_TRUE(model->has_config());
  EXPECT_EQ(model->config_path(), dir_ / "m.gguf");
  EXPECT_EQ(model->config().architecture, "deepseek2");
  ASSERT_EQ(model->layers().size(), 2u);
  EXPECT_EQ(model->layers()[0].expert_count, 4u);
  EXPECT_EQ(model->layers()[0].top_k, 2u);
  EXPECT_EQ(model->layers()[0].expert_bytes, 3u * 2 * 2 * 4);
  EXPECT_EQ(model->routing().gating, Gating::kSoftmax);
  EXPECT_FALSE(model->routing().normalize);
}

TEST_F(GgufModels, MayBeOfAnyArchitectureWithPackedExperts) {
  const auto model = Open(fixtures::MiniGguf("moe-of-tomorrow", 1, 4));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->routing().gating, Gating::kSoftmax);
  EXPECT_THAT(model->warnings(), testing::Contains(HasSubstr("\"moe-of-tomorrow\"")));
}

TEST_F(GgufModels, ChangeTheirVersionWithMetadataAndWeights) {
  fixtures::GgufFile file = fixtures::MiniGguf("qwen3moe", 1, 4);
  const std::string before = Open(file)->Version("");
  EXPECT_EQ(Open(file)->Version(""), before);
  file.tensors[0].bytes[0] ^= 1;
  const std::string weights = Open(file)->Version("");
  EXPECT_NE(weights, before);
  file.pairs.push_back(fixtures::GgufPairU32("qwen3moe.context_length", 7));
  EXPECT_NE(Open(file)->Version(""), weights);
}

TEST_F(GgufModels, KeepMtpBlocksApart) {
  fixtures::GgufFile file = fixtures::MiniGguf("glm4moe", 2, 4);
  file.pairs.push_back(fixtures::GgufPairU32("glm4moe.nextn_predict_layers", 1));
  const auto model = Open(file);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config().layers, 1u);
  EXPECT_FALSE(model->layers()[0].mtp);
  EXPECT_TRUE(model->layers()[1].mtp);
}

TEST_F(GgufModels, RefuseASeparateConfig) {
  ModelOptions options;
  options.config_file = "config.json";
  const auto model = Open(fixtures::MiniGguf("qwen3moe", 1, 4), options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kInvalidArgument);
  EXPECT_THAT(model.error().message,
              HasSubstr("--config has no effect: a GGUF model has its own metadata"));
}

TEST_F(GgufModels, AFamilyFileTakesWhatTheTableRefuses) {
  fixtures::GgufFile file = fixtures::MiniGguf("qwen3moe", 1, 4);
  file.tensors.push_back({.name = "blk.0.ffn_mystery.weight",
                          .dims = {2, 4},
                          .type = fixtures::kGgufTypeF32,
                          .bytes = std::string(32, 'm')});
  EXPECT_EQ(Open(file).error().code, Code::kUnsupported);
  ASSERT_TRUE(fixtures::WriteFile(dir_ / "family.json", R"({"name": "mystery", "rules": [
      {"pattern": "blk.{L}.ffn_{*}_exps.{W}", "part": "expert", "role": "up", "expert_axis": 0},
      {"pattern": "blk.{L}.ffn_mystery.{W}", "part": "router", "role": "m", "expert_axis": 0},
      {"pattern": "{**}", "part": "trunk", "role": "other"}]})"));
  ModelOptions options;
  options.family_file = dir_ / "family.json";
  const auto model = Open(file, options);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->family().name, "mystery");
}

TEST_F(GgufModels, AnUnknownTensorWithoutTheExpertsLengthIsTrunk) {
  fixtures::GgufFile file = fixtures::MiniGguf("qwen3moe", 1, 4);
  file.tensors.push_back({.name = "blk.0.ffn_mystery.weight",
                          .dims = {2, 3},
                          .type = fixtures::kGgufTypeF32,
                          .bytes = std::string(24, 'm')});
  const auto model = Open(file);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(PartName(model->tensors().back().part), "trunk");
}

}  // namespace
}  // namespace moepack
