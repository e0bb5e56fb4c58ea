// No false alarms: generated layouts, tiny models, golden checkpoints, and the real configs and
// indexes under shared/real pass the check, or are listed here with the reason why they cannot.
#include "libshard/check/model_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/model/family_find.h"
#include "tests/conformance/real_files.h"
#include "tests/libshard/model/model_for_test.h"

namespace moepack {
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

TEST(ModelCheck, GeneratedLayoutsMatchTheirConfigs) {
  // Nine layers are enough for kinds of layers that repeat.
  const fixtures::Options large = {.layers = 9, .hidden = 128, .ff = 32, .head_size = 32};
  for (const std::string& layout : fixtures::Layouts()) {
    for (fixtures::Options options : {fixtures::Options{}, large}) {
      // Ling's groups are of four layers; DeepSeek-V4's config lists three.
      if (options.layers > 0 && layout == "bailing-moe-v3") options.layers = 8;
      if (layout == "deepseek-v4") options.layers = 3;
      const fixtures::TempDir dir;
      ASSERT_TRUE(fixtures::MakeCheckpoint(layout, dir.path(), options));
      EXPECT_EQ(FindingsOf(dir.path()), "") << layout;
    }
  }
}

TEST(ModelCheck, TinyMoeMatchesItsConfig) {
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

TEST(ModelCheck, GoldenCheckpointsMatchTheirConfigs) {
  const fs::path root = Shared("golden/convert");
  if (!fs::exists(root))
    GTEST_SKIP() << "0 golden checkpoints checked: there is no folder " << root;
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

// Known faults of a real checkpoint.
struct Known {
  const char* folder;
  const char* message;  // part of the message
  const char* reason;
};

constexpr Known kIndexFindings[] = {
    {"qwen3_5-moe/Qwen3.5-18B-REAP-A3B-Coding",
     "missing: layer 40: block for multi-token prediction: expected one, as the config "
     "announces 1, found none\n",
     "pruned by a tool that dropped the block and left its number in the config"},
    {"qwen3_5-moe/Qwen3.5-25B-REAP-A3B-Coding",
     "missing: layer 40: block for multi-token prediction: expected one, as the config "
     "announces 1, found none\n",
     "the same"},
};
constexpr Known kNoGgufKeys[] = {
    {"bailing/Ming-omni", "expected BailingMoeForCausalLM", "a router for each modality"},
    {"kimi/Kimi-K2-Mini-fp8-pruned-derivative", "n_shared_experts: expected at least one",
     "pruned of its shared experts, which the runtime asks for"},
    {"kimi/PCL-Kimi2-1T-derivative", "qk_nope_head_dim: expected a whole number, found nothing",
     "ordinary attention under DeepSeek's names; deepseek2 has latent attention only"},
    {"phi-moe/Phi-tiny-MoE-instruct", "size of a head: expected hidden size / heads",
     "heads of another size, for which phimoe has no key"},
    {"step/Step-3.7-Flash", "expected Step3p5ForCausalLM",
     "only llama.cpp's own converter reads it"},
};

template <size_t N>
const Known* Find(const Known (&table)[N], const std::string& folder) {
  for (const Known& known : table) {
    if (folder == known.folder) return &known;
  }
  return nullptr;
}

TEST_F(RealModels, ConfigsAreConsistent) {
  size_t checked = 0;
  for (const fs::path& file : FilesNamed(root_, {"config.json"})) {
    SCOPED_TRACE(Folder(file));
    const Result<ModelConfig> model = ReadModelConfig(file);
    if (!model) continue;  // listed in real_checkpoints_test.cc
    const Result<const Family*> family = FindFamily(file.string(), *model);
    if (!family) continue;
    const auto config = HfConfig::Parse(file.string(), ReadTextFile(file, kMaxConfigBytes).value());
    ASSERT_TRUE(config) << config.error().message;
    const auto findings = CheckConfig(*config, *model, **family);
    ASSERT_TRUE(findings) << findings.error().message;
    for (const CheckFinding& finding : *findings) ADD_FAILURE() << FindingText(finding);
    ++checked;
  }
  std::printf("configs: %zu agree with themselves\n", checked);
  EXPECT_EQ(checked, 81u);
}

TEST_F(RealModels, ConfigsOfConvertedFamiliesBecomeGgufKeys) {
  size_t converted = 0, refused = 0;
  for (const fs::path& file : FilesNamed(root_, {"config.json"})) {
    const std::string folder = Folder(file);
    SCOPED_TRACE(folder);
    const Result<ModelConfig> config = ReadModelConfig(file);
    const Family* family = nullptr;
    if (config) {
      const Result<const Family*> found = FindFamily(file.string(), *config);
      if (found) family = *found;
    }
    const GgufConverter* converter = family == nullptr ? nullptr : FindConverter(family->name);
    if (converter == nullptr) continue;
    const MoeModel model =
        ModelForTest(*config).Family(family->name).ConfigPath(file.string()).Build();
    ConvertOptions options;
    options.part = ConvertOptions::Part::kKeys;
    const auto keys = converter->convert(model, options);
    if (const Known* known = Find(kNoGgufKeys, folder)) {
      ++refused;
      ASSERT_FALSE(keys) << known->reason;
      EXPECT_NE(keys.error().message.find(known->message), std::string::npos)
          << keys.error().message;
      continue;
    }
    EXPECT_TRUE(keys) << keys.error().message;
    ++converted;
  }
  std::printf("configs: %zu become GGUF keys, %zu refused as expected\n", converted, refused);
  EXPECT_EQ(refused, std::size(kNoGgufKeys));
  EXPECT_GT(converted, 0u);
}

TEST_F(RealModels, IndexesMatchTheirConfigs) {
  // Listings without their own config, and the listings whose config describes them.
  const std::map<std::string, std::string> config_of = {
      {"glm/GLM-4.x-355B-mergekit-derivative", "glm/GLM-4.7-FP8"},
      {"qwen3-moe/Qwen3-30B-A3B-transgqa-derivative", "qwen3-moe/Qwen3-30B-A3B"},
  };
  size_t good = 0, known_bad = 0;
  for (const fs::path& file :
       FilesNamed(root_, {"model.safetensors.index.json", "model.safetensors.index.json.gz"})) {
    const std::string folder = Folder(file);
    SCOPED_TRACE(folder);
    if (folder.starts_with("dense-controls/")) continue;
    const fixtures::TempDir dir;
    const fs::path index = dir / "model.safetensors.index.json";
    std::ofstream(index) << ReadAll(file);
    const auto other = config_of.find(folder);
    ModelOptions options;
    options.config_file =
        (root_ / (other == config_of.end() ? folder : other->second) / "config.json").string();
    const std::string findings = FindingsOf(index, options);
    if (const Known* known = Find(kIndexFindings, folder)) {
      ++known_bad;
      EXPECT_EQ(findings, known->message) << known->reason;
      continue;
    }
    EXPECT_EQ(findings, "");
    ++good;
  }
  std::printf("indexes: %zu as their configs promise, %zu listed\n", good, known_bad);
  EXPECT_EQ(known_bad, std::size(kIndexFindings));
  EXPECT_GT(good, 0u);
}

}  // namespace
}  // namespace moepack
