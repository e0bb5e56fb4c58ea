// Classifies the real index files, name lists and configs under shared/real (not part of the
// repository). Every one has a family that knows all of its tensors, or is listed here with the
// reason why it must be refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/model/config.h"
#include "libshard/model/family.h"
#include "libshard/model/family_find.h"
#include "tests/conformance/real_files.h"

namespace moepack {
namespace {

struct Refusal {
  const char* folder;
  const char* message;  // part of the error
  const char* reason;
};

constexpr Refusal kRefusedConfigs[] = {
    {"dense-controls/Mistral-22B-v0.2", "nothing to split", "dense, although made out of Mixtral"},
    {"dense-controls/Qwen3.5-9B", "nothing to split", "dense, with MTP and a vision tower"},
    {"dense-controls/gemma-4-31B-it", "nothing to split", "dense: num_experts is null"},
    {"nemotron3/V4X-AI-ku-nemotron3-nano-derivative", "known family", "architecture of a graft"},
    {"ernie/ERNIE-4.5-VL-424B-A47B", "pools", "two expert pools, one per modality"},
};

constexpr Refusal kRefusedNames[] = {
    {"dense-controls/Mistral-22B-v0.2", "no tensor belongs to a routed expert", "dense"},
    {"dense-controls/Qwen3.5-9B", "no tensor belongs to a routed expert", "dense"},
    {"dense-controls/gemma-4-31B-it", "no tensor belongs to a routed expert", "dense"},
    {"nemotron3/V4X-AI-ku-nemotron3-nano-derivative", "new_experts",
     "foreign experts grafted in, torn: 1467 / 1467 / 1466"},
};

template <size_t N>
const Refusal* FindRefusal(const Refusal (&table)[N], const std::string& folder) {
  for (const Refusal& refusal : table) {
    if (folder == refusal.folder) return &refusal;
  }
  return nullptr;
}

struct MoeLayers {
  std::map<int, std::set<int>> experts;  // layer -> ids; no ids where the experts are packed
  size_t unknown = 0;
  std::string first_unknown;
};

MoeLayers Classify(const Family& family, uint32_t layers, const std::vector<std::string>& names) {
  FamilyMatcher matcher(family, layers);
  MoeLayers result;
  for (const std::string& name : names) {
    const TensorClass found = matcher.Classify(name);
    if (found.rule == nullptr) {
      if (result.unknown++ == 0) result.first_unknown = name;
    } else if (found.rule->part == Part::kExpert) {
      std::set<int>& ids = result.experts[static_cast<int>(found.layer.value())];
      if (found.expert) ids.insert(static_cast<int>(*found.expert));
    }
  }
  return result;
}

// One line of the table "What the index files look like".
struct TableLine {
  size_t tensors = 0;
  std::string layers;   // "11 (1..11)", "0"
  std::string experts;  // "64", "packed", "-"
};

std::string DescribeLayers(const MoeLayers& moe) {
  if (moe.experts.empty()) return "0";
  return Cat(moe.experts.size(), " (", moe.experts.begin()->first, "..",
             moe.experts.rbegin()->first, ")");
}

// "packed", or the number of experts if every layer has the ids 0 to n - 1 for the same n.
std::string DescribeExperts(const MoeLayers& moe) {
  std::set<std::string> kinds;
  for (const auto& [layer, ids] : moe.experts) {
    const bool complete = ids.empty() || *ids.rbegin() + 1 == static_cast<int>(ids.size());
    kinds.insert(ids.empty() ? "packed" : complete ? Cat(ids.size()) : "torn");
  }
  return Join({kinds.begin(), kinds.end()}, " and ");
}

class RealCheckpoints : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("MOEPACK_SHARED");
    root_ = (shared != nullptr ? fs::path(shared) : fs::path(MOEPACK_SOURCE_DIR) / "../shared") /
            "real";
    if (!fs::exists(root_)) {
      GTEST_SKIP() << "0 real checkpoints checked: there is no folder " << root_;
    }
  }

  std::vector<fs::path> Files(std::initializer_list<const char*> names) const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      for (const char* name : names) {
        if (entry.path().filename() == name) files.push_back(entry.path());
      }
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  std::string Folder(const fs::path& file) const {
    return fs::relative(file.parent_path(), root_).generic_string();
  }

  Result<ModelConfig> Config(const std::string& folder) const {
    return ReadModelConfig(root_ / ConfigFolderOf(folder) / "config.json");
  }

  std::map<std::string, TableLine> ReadTable() const;

  fs::path root_;
};

std::map<std::string, TableLine> RealCheckpoints::ReadTable() const {
  std::map<std::string, TableLine> table;
  std::istringstream lines(ReadAll(root_ / "README.md"));
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("## ")) inside = line == "## What the index files look like";
    if (!inside || !line.starts_with("| `")) continue;
    std::vector<std::string> cells = Split(line, '|');
    for (std::string& cell : cells) {
      cell.erase(0, cell.find_first_not_of(" `"));
      cell.erase(cell.find_last_not_of(" `") + 1);
    }
    if (cells.size() < 6) continue;
    table[cells[1]] = {ParseUint(cells[2]).value_or(0), cells[4], cells[5]};
  }
  return table;
}

TEST_F(RealCheckpoints, EveryConfigHasAFamilyOrIsRefusedForItsReason) {
  size_t accepted = 0, refused = 0;
  for (const fs::path& file : Files({"config.json"})) {
    const std::string folder = Folder(file);
    SCOPED_TRACE(folder);
    const Result<ModelConfig> config = ReadModelConfig(file);
    const Result<const Family*> family =
        config ? FindFamily(file.string(), *config) : Result<const Family*>(config.error());
    if (const Refusal* refusal = FindRefusal(kRefusedConfigs, folder)) {
      ++refused;
      ASSERT_FALSE(family) << refusal->reason;
      EXPECT_EQ(family.error().code, Code::kUnsupported) << refusal->reason;
      EXPECT_NE(family.error().message.find(refusal->message), std::string::npos)
          << family.error().message;
      continue;
    }
    ++accepted;
    ASSERT_TRUE(family) << family.error().message;
    EXPECT_GT(config->layers, 0u);
    EXPECT_GT(config->expert_count, 0u);
    EXPECT_GT(config->top_k, 0u);
    EXPECT_GT(config->hidden_size, 0u);
    EXPECT_GT(config->expert_intermediate_size, 0u);
    EXPECT_GT(config->vocab_size, 0u);
  }
  std::printf("configs: %zu have a family, %zu refused as expected\n", accepted, refused);
  EXPECT_EQ(refused, std::size(kRefusedConfigs));
  EXPECT_GT(accepted, 0u);
}

TEST_F(RealCheckpoints, EveryIndexIsClassifiedWithoutUnknownTensors) {
  const std::map<std::string, TableLine> table = ReadTable();
  size_t indexes = 0, tensors = 0;
  for (const fs::path& file :
       Files({"model.safetensors.index.json", "model.safetensors.index.json.gz"})) {
    const std::string folder = Folder(file);
    SCOPED_TRACE(folder);
    const std::vector<std::string> names = IndexNames(file);
    const auto expected = table.find(folder);
    ASSERT_NE(expected, table.end()) << "not in the README's table";
    EXPECT_EQ(names.size(), expected->second.tensors);
    if (FindRefusal(kRefusedConfigs, folder) != nullptr) continue;
    const Result<ModelConfig> config = Config(folder);
    ASSERT_TRUE(config) << config.error().message;
    const Result<const Family*> family = FindFamily(folder, *config);
    ASSERT_TRUE(family) << family.error().message;
    const MoeLayers moe = Classify(**family, config->layers, names);
    EXPECT_EQ(moe.unknown, 0u) << (*family)->name << ": " << moe.first_unknown;
    EXPECT_EQ(DescribeLayers(moe), expected->second.layers);
    EXPECT_EQ(DescribeExperts(moe), expected->second.experts);
    if (expected->second.experts != "packed") {
      EXPECT_EQ(Cat(config->expert_count), expected->second.experts);
    }
    ++indexes;
    tensors += names.size();
  }
  std::printf("indexes: %zu classified, %zu tensors\n", indexes, tensors);
  EXPECT_GT(indexes, 0u);
}

TEST_F(RealCheckpoints, TensorNamesDecideTheFamilyWithoutAConfig) {
  size_t accepted = 0, refused = 0;
  for (const fs::path& file : Files({"model.safetensors.index.json",
                                     "model.safetensors.index.json.gz", "tensor_names.txt.gz"})) {
    const std::string folder = Folder(file);
    SCOPED_TRACE(folder);
    const bool lines = file.filename() == "tensor_names.txt.gz";
    const std::vector<std::string> names = lines ? LineNames(file) : IndexNames(file);
    const Result<const Family*> family = FindFamilyByNames(folder, {names.begin(), names.end()});
    if (const Refusal* refusal = FindRefusal(kRefusedNames, folder)) {
      ++refused;
      ASSERT_FALSE(family) << refusal->reason;
      EXPECT_NE(family.error().message.find(refusal->message), std::string::npos)
          << family.error().message;
      continue;
    }
    ++accepted;
    EXPECT_TRUE(family) << family.error().message;
  }
  std::printf("by names alone: %zu have a family, %zu refused as expected\n", accepted, refused);
  EXPECT_EQ(refused, std::size(kRefusedNames));
}

TEST_F(RealCheckpoints, OnlyTheGraftedTensorsAreUnknown) {
  const std::string folder = "nemotron3/V4X-AI-ku-nemotron3-nano-derivative";
  const std::vector<std::string> names = LineNames(root_ / folder / "tensor_names.txt.gz");
  const Result<ModelConfig> config =
      ReadModelConfig(root_ / "nemotron3/Nemotron-3-Nano-30B-A3B-BF16/config.json");
  ASSERT_TRUE(config) << config.error().message;
  const Result<const Family*> family = FindFamily(folder, *config);
  ASSERT_TRUE(family) << family.error().message;
  const MoeLayers moe = Classify(**family, config->layers, names);
  EXPECT_EQ(moe.unknown, 1467u + 1467u + 1466u + 49u);
  EXPECT_EQ(moe.experts.size(), 23u);
  EXPECT_EQ(DescribeExperts(moe), "128");
}

// Names that stand for one tensor each in lists other than indexes.
TEST_F(RealCheckpoints, QuantizedModulesAreKnownTensors) {
  size_t lists = 0, modules = 0;
  for (const fs::path& file : Files({"hf_quant_config.json", "hf_quant_config.json.gz"})) {
    const std::string folder = Folder(file);
    SCOPED_TRACE(folder);
    const Json document = Parse(file);
    const auto layers = document.at("quantization").find("quantized_layers");
    if (layers == document.at("quantization").end()) continue;
    // MiniMax-M3's list has no config of its own; it uses that of the unquantized release.
    const std::string from = folder == "minimax/MiniMax-M3-NVFP4" ? "minimax/MiniMax-M3" : folder;
    const Result<ModelConfig> config = ReadModelConfig(root_ / from / "config.json");
    ASSERT_TRUE(config) << config.error().message;
    const Result<const Family*> family = FindFamily(folder, *config);
    ASSERT_TRUE(family) << family.error().message;
    std::vector<std::string> names;
    for (const auto& [module, options] : layers->items()) {
      // Some lists name all experts of a layer as one module.
      const bool all = module.ends_with(".experts");
      const char* first = folder.find("DeepSeek-V4") != std::string::npos ? ".0.w1" : ".0.up_proj";
      names.push_back(Cat(module, all ? first : "", ".weight"));
    }
    const MoeLayers moe = Classify(**family, config->layers, names);
    EXPECT_EQ(moe.unknown, 0u) << moe.first_unknown;
    ++lists;
    modules += names.size();
  }
  std::printf("module lists: %zu checked, %zu modules\n", lists, modules);
  EXPECT_GT(lists, 0u);
}

const Family* FamilyNamed(std::string_view name) {
  for (const Family& family : AllFamilies()) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

TEST_F(RealCheckpoints, PaddleExcerptNamesExperts) {
  const Family* family = FamilyNamed("ernie4.5-moe");
  ASSERT_NE(family, nullptr);
  std::vector<std::string> names;
  for (const std::string& line :
       Split(ReadAll(root_ / "ernie/ERNIE-4.5-300B-A47B-FP8-Paddle/index_excerpt.txt"), '\n')) {
    const std::vector<std::string> quoted = Split(line, '"');
    if (quoted.size() > 1) names.push_back(quoted[1]);
  }
  EXPECT_EQ(names.size(), 8u);
  const MoeLayers moe = Classify(*family, 54, names);
  EXPECT_EQ(moe.unknown, 0u) << moe.first_unknown;
  EXPECT_EQ(moe.experts.at(40), (std::set<int>{11, 19}));
}

// Collects the "name" fields of a mergekit template, with the prefix of their module.
void TemplateNames(const Json& node, std::string prefix, std::vector<std::string>& names) {
  if (node.is_object()) {
    if (const auto own = node.find("weight_prefix"); own != node.end()) {
      prefix = own->get<std::string>();
    }
    if (const auto name = node.find("name"); name != node.end() && name->is_string()) {
      std::string text = prefix + name->get<std::string>();
      const std::string layer = "${layer_index}";
      if (const size_t at = text.find(layer); at != std::string::npos) {
        text.replace(at, layer.size(), "0");
      }
      names.push_back(text);
    }
  }
  if (!node.is_structured()) return;
  for (const auto& [key, value] : node.items()) TemplateNames(value, prefix, names);
}

TEST_F(RealCheckpoints, NamingTemplatesAreKnown) {
  const std::pair<const char*, const char*> templates[] = {
      {"llama4", "llama4/mergekit_naming_template.json"},
      {"granite-moe-hybrid", "granite-moe/granite-4-moe-hybrid/mergekit_naming_template.json"}};
  for (const auto& [name, path] : templates) {
    SCOPED_TRACE(path);
    std::vector<std::string> names;
    TemplateNames(Parse(root_ / path), "", names);
    const Family* family = FamilyNamed(name);
    ASSERT_NE(family, nullptr);
    const MoeLayers moe = Classify(*family, 0, names);
    EXPECT_EQ(moe.unknown, 0u) << moe.first_unknown;
    EXPECT_EQ(moe.experts.size(), 1u);
    std::printf("naming template %s: %zu names\n", name, names.size());
  }
}

TEST_F(RealCheckpoints, MlxExpertTablesAreKnown) {
  size_t names = 0;
  for (const fs::path& file : Files({"expert_offsets.json", "expert_offsets.json.gz"})) {
    SCOPED_TRACE(Folder(file));
    const Family* family = FamilyNamed("qwen3.5-moe");
    ASSERT_NE(family, nullptr);
    FamilyMatcher matcher(*family, 0);
    const Json document = Parse(file);
    for (const auto& [layer, tensors] : document.at("expert_reads").items()) {
      for (const auto& [tensor, place] : tensors.items()) {
        const TensorClass found = matcher.Classify(
            Cat("language_model.model.layers.", layer, ".mlp.switch_mlp.", tensor));
        ASSERT_NE(found.rule, nullptr) << tensor;
        EXPECT_EQ(found.rule->part, Part::kExpert);
        EXPECT_EQ(found.rule->expert_axis, 0);
        ++names;
      }
    }
  }
  std::printf("MLX expert tables: %zu tensors\n", names);
  EXPECT_EQ(names, 540u + 360u);
}

}  // namespace
}  // namespace moepack
