// What a config alone promises matches its checkpoint: for every generated layout, and for the real
// configs and indexes under shared/real.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/check/model_check.h"
#include "libshard/check/promised_model.h"
#include "tests/conformance/real_files.h"

namespace moepack {
namespace {

// Type and shape by name, without the prefix that only nests the text model.
using Table = std::map<std::string, std::string>;

std::string WithoutPrefix(const std::string& name, const Family& family) {
  size_t longest = 0;
  for (const std::string& prefix : family.prefixes) {
    if (name.starts_with(prefix)) longest = std::max(longest, prefix.size());
  }
  return name.substr(longest);
}

bool IsTower(const Family& family, const std::string& name) {
  FamilyMatcher matcher(family, 1);
  const TensorClass found = matcher.Classify(name);
  return found.rule != nullptr && (found.rule->role == "vision" || found.rule->role == "audio");
}

// Lines "- name type shape" for promised tensors that are missing, "+ ..." for unpromised ones.
std::string Differences(const Table& promised, const Table& real) {
  std::string text;
  for (const auto& [name, kind] : promised) {
    const auto at = real.find(name);
    if (at == real.end() || at->second != kind) text += Cat("- ", name, " ", kind, "\n");
  }
  for (const auto& [name, kind] : real) {
    const auto at = promised.find(name);
    if (at == promised.end() || at->second != kind) text += Cat("+ ", name, " ", kind, "\n");
  }
  return text;
}

Result<PromisedModel> PromisedOf(const std::string& config, const fixtures::TempDir& dir) {
  std::ofstream(dir / "config.json") << config;
  SHARD_TRY(const Source source, LocalSource(dir.path()));
  return OpenPromised(source, "config.json", {.family_file = {}, .config_file = {}});
}

Table TableOf(const PromisedModel& promised) {
  Table table;
  for (const TensorEntry& entry : promised.model.checkpoint().tensors()) {
    table[WithoutPrefix(entry.name, promised.model.family())] =
        Cat(entry.dtype, " ", FormatShape(entry.shape));
  }
  return table;
}

Table TableOf(const fixtures::CheckpointSpec& spec, const Family& family) {
  Table table;
  for (const fixtures::TensorHead& head : spec.tensors) {
    if (IsTower(family, head.name)) continue;
    table[WithoutPrefix(head.name, family)] = Cat(head.dtype, " ", FormatShape(head.shape));
  }
  return table;
}

// Layouts whose tensors differ from their configs.
struct Exception {
  const char* layout;
  const char* reason;
};
constexpr Exception kExceptions[] = {
    {"qwen3-next", "its config does not announce the block for multi-token prediction"},
    {"qwen3.5-moe-explicit", "a pruned model whose experts are no longer packed"},
    {"ernie-4.5", "it has a head, although its config ties it to the embedding"},
};

bool IsException(const std::string& layout) {
  return std::any_of(std::begin(kExceptions), std::end(kExceptions),
                     [&](const Exception& exception) { return layout == exception.layout; });
}

// Only towers may be missing from an otherwise complete checkpoint.
bool SaysMore(const PromisedModel& promised) {
  return !promised.unfollowed.empty() ||
         std::any_of(promised.missing.begin(), promised.missing.end(), [](const auto& missing) {
           return missing != "vision tower" && missing != "audio tower";
         });
}

TEST(PromisedTensors, MatchTheCheckpointOfEveryLayoutOrSayWhatIsMissing) {
  const fixtures::Options large = {.layers = 9, .hidden = 128, .ff = 32, .head_size = 32};
  size_t exact = 0;
  for (const std::string& layout : fixtures::Layouts()) {
    for (fixtures::Options options : {fixtures::Options{}, large}) {
      // Ling's groups are of four layers; DeepSeek-V4's config lists three.
      if (options.layers > 0 && layout == "bailing-moe-v3") options.layers = 8;
      if (layout == "deepseek-v4") options.layers = 3;
      const fixtures::CheckpointSpec spec = fixtures::DescribeCheckpoint(layout, options);
      const fixtures::TempDir dir;
      const auto promised = PromisedOf(spec.config, dir);
      ASSERT_TRUE(promised) << layout << ": " << promised.error().message;
      EXPECT_EQ(promised->model.layers().empty(), false) << layout;
      const std::string differences =
          Differences(TableOf(*promised), TableOf(spec, promised->model.family()));
      exact += differences.empty() ? 1 : 0;
      if (IsException(layout)) {
        EXPECT_NE(differences, "") << layout << " no longer needs an exception";
      } else if (!SaysMore(*promised)) {
        EXPECT_EQ(differences, "") << layout;
      }
    }
  }
  EXPECT_GE(exact, 2u * 18u);
}

// The check of checkpoints and the promise agree: promised tensors pass it.
TEST(PromisedTensors, PassTheCheckOfTheirOwnConfig) {
  for (const std::string& layout : fixtures::Layouts()) {
    const fixtures::TempDir dir;
    const auto promised = PromisedOf(fixtures::DescribeCheckpoint(layout).config, dir);
    ASSERT_TRUE(promised) << layout << ": " << promised.error().message;
    if (SaysMore(*promised)) continue;
    const auto findings = CheckModel(promised->model, {.defaults = "", .mtp_may_lack = true});
    ASSERT_TRUE(findings) << findings.error().message;
    for (const CheckFinding& finding : *findings) ADD_FAILURE() << layout << FindingText(finding);
  }
}

class RealConfigs : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("MOEPACK_SHARED");
    root_ = (shared != nullptr ? fs::path(shared) : fs::path(MOEPACK_SOURCE_DIR) / "../shared") /
            "real";
    if (!fs::exists(root_)) GTEST_SKIP() << "0 real configs: there is no folder " << root_;
  }

  std::vector<std::string> Folders() const {
    std::vector<std::string> folders;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      if (entry.path().filename() != "config.json") continue;
      folders.push_back(fs::relative(entry.path().parent_path(), root_).generic_string());
    }
    std::sort(folders.begin(), folders.end());
    return folders;
  }

  Result<PromisedModel> Open(const std::string& folder) const {
    const fs::path config = root_ / folder / "config.json";
    SHARD_TRY(const Source source, LocalSource(config));
    return OpenPromised(source, source.file, {.family_file = {}, .config_file = {}});
  }

  fs::path root_;
};

// Without routed experts, or with two pools of them: refused, like their checkpoints.
const std::set<std::string> kRefusedFolders = {
    "dense-controls/Mistral-22B-v0.2", "dense-controls/Qwen3.5-9B", "dense-controls/gemma-4-31B-it",
    "ernie/ERNIE-4.5-VL-424B-A47B", "nemotron3/V4X-AI-ku-nemotron3-nano-derivative"};

TEST_F(RealConfigs, SufficeForASummary) {
  size_t open = 0, whole = 0;
  for (const std::string& folder : Folders()) {
    const auto promised = Open(folder);
    EXPECT_EQ(promised.has_value(), !kRefusedFolders.contains(folder))
        << folder << ": " << (promised ? "opened" : promised.error().message);
    if (!promised) continue;
    ++open;
    whole += SaysMore(*promised) ? 0 : 1;
    EXPECT_GT(CountParameters(promised->model).total, 0u) << folder;
  }
  std::printf("real configs: %zu opened, of %zu all sizes are known\n", open, whole);
  EXPECT_GE(open, 81u);
}

// Billions, from the model names or the model cards.
struct Card {
  const char* folder;
  double total, active;
  enum class Counts { kAll, kWithoutEmbedding, kWithoutTables } counts;
};
constexpr Card kCards[] = {
    {"deepseek/DeepSeek-V3", 671, 37, Card::Counts::kWithoutEmbedding},
    {"deepseek/DeepSeek-V2-236B", 236, 21, Card::Counts::kWithoutEmbedding},
    {"deepseek/DeepSeek-V2-Lite-16B", 15.7, 2.4, Card::Counts::kWithoutEmbedding},
    {"kimi/Kimi-K2-Instruct", 1026, 32, Card::Counts::kWithoutEmbedding},
    {"gpt-oss/gpt-oss-120b", 116.8, 5.1, Card::Counts::kWithoutEmbedding},
    {"gpt-oss/gpt-oss-20b", 20.9, 3.6, Card::Counts::kWithoutEmbedding},
    {"glm/GLM-5", 744, 40, Card::Counts::kWithoutTables},
    {"minimax/MiniMax-M2", 229, 10, Card::Counts::kWithoutEmbedding},
    {"glm/GLM-4.7-FP8", 353, 32, Card::Counts::kWithoutTables},
    {"glm/GLM-4.5-Air", 107, 12, Card::Counts::kWithoutTables},
    {"glm/GLM-4.7-Flash", 30, 3, Card::Counts::kWithoutTables},
    {"qwen3-moe/Qwen3-30B-A3B", 30.5, 3.3, Card::Counts::kAll},
    {"qwen3-moe/Qwen3-235B-A22B", 235, 22, Card::Counts::kAll},
    {"qwen3-moe/Qwen3-Coder-480B-A35B-Instruct", 480, 35, Card::Counts::kAll},
    {"mixtral/Mixtral-8x7B-v0.1", 46.7, 12.9, Card::Counts::kAll},
    {"mixtral/Mixtral-8x22B-v0.1", 141, 39, Card::Counts::kAll},
    {"llama4/Llama-4-Scout-17B-16E-Instruct", 108, 17, Card::Counts::kAll},
    {"llama4/Llama-4-Maverick-17B-128E-Instruct", 401, 17, Card::Counts::kAll},
    {"olmoe/OLMoE-1B-7B-0924", 6.9, 1.3, Card::Counts::kAll},
    {"phi-moe/Phi-3.5-MoE-instruct", 41.9, 6.6, Card::Counts::kAll},
};

// Our figure matches the card to the digits that it gives, if the tables are counted as that card
// does.
TEST_F(RealConfigs, GiveTheActiveParametersOfTheirModelCards) {
  for (const Card& card : kCards) {
    const auto promised = Open(card.folder);
    ASSERT_TRUE(promised) << card.folder << promised.error().message;
    const ParameterCount count = CountParameters(promised->model);
    uint64_t active = count.active;
    if (card.counts != Card::Counts::kAll) active -= count.input_embedding;
    if (card.counts == Card::Counts::kWithoutTables) active -= count.head;
    const double step = card.active < 15 && card.active != 10 && card.active != 12 ? 0.08 : 0.6;
    EXPECT_NEAR(static_cast<double>(active) / 1e9, card.active, card.active == 3 ? 0.3 : step)
        << card.folder;
    EXPECT_NEAR(static_cast<double>(count.total) / 1e9, card.total, card.total * 0.005)
        << card.folder;
  }
}

// The table of docs/families.md, for the configs that it is computed from.
const std::map<std::string, const char*> kTableFolders = {
    {"DeepSeek-V3, R1", "deepseek/DeepSeek-V3"},
    {"DeepSeek-V2", "deepseek/DeepSeek-V2-236B"},
    {"DeepSeek-V2-Lite", "deepseek/DeepSeek-V2-Lite-16B"},
    {"Kimi-K2", "kimi/Kimi-K2-Instruct"},
    {"gpt-oss-120b", "gpt-oss/gpt-oss-120b"},
    {"gpt-oss-20b", "gpt-oss/gpt-oss-20b"},
    {"ERNIE-4.5-300B", "ernie/ERNIE-4.5-300B-A47B-FP8-Paddle"},
    {"MiniMax-M2", "minimax/MiniMax-M2"},
    {"GLM-4.5", "glm/GLM-4.7-FP8"},  // of the same sizes
    {"GLM-4.5-Air", "glm/GLM-4.5-Air"},
    {"GLM-5", "glm/GLM-5"},
    {"GLM-4.7-Flash", "glm/GLM-4.7-Flash"},
    {"Qwen3-30B-A3B", "qwen3-moe/Qwen3-30B-A3B"},
    {"Qwen3-235B-A22B", "qwen3-moe/Qwen3-235B-A22B"},
    {"Qwen3-Coder-480B-A35B", "qwen3-moe/Qwen3-Coder-480B-A35B-Instruct"},
    {"Mixtral-8x7B", "mixtral/Mixtral-8x7B-v0.1"},
    {"Mixtral-8x22B", "mixtral/Mixtral-8x22B-v0.1"},
    {"Llama-4 Scout, Maverick", "llama4/Llama-4-Scout-17B-16E-Instruct"},
    {"OLMoE-1B-7B", "olmoe/OLMoE-1B-7B-0924"},
    {"Phi-3.5-MoE", "phi-moe/Phi-3.5-MoE-instruct"}};

std::string Billions(uint64_t count) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f", static_cast<double>(count) / 1e9);
  return text.data();
}

TEST_F(RealConfigs, GiveTheFiguresOfTheDocumentedTable) {
  std::ifstream page(fs::path(MOEPACK_SOURCE_DIR) / "docs/families.md");
  size_t compared = 0;
  for (std::string line; std::getline(page, line);) {
    std::erase(line, '*');
    const std::vector<std::string> cells = Split(line, '|');
    const auto folder = cells.size() == 7
                            ? kTableFolders.find(cells[1].substr(1, cells[1].size() - 2))
                            : kTableFolders.end();
    if (folder == kTableFolders.end()) continue;
    const auto promised = Open(folder->second);
    ASSERT_TRUE(promised) << promised.error().message;
    const ParameterCount count = CountParameters(promised->model);
    const uint64_t without = count.active - count.input_embedding;
    EXPECT_EQ(Cat(cells[3], "|", cells[4], "|", cells[5]),
              Cat(" ", Billions(count.active), " | ", Billions(without), " | ",
                  Billions(without - count.head), " "))
        << folder->first;
    ++compared;
  }
  EXPECT_EQ(compared, kTableFolders.size());
}

// total_size of an index, where all tensors are known and nothing else is stored with them.
TEST_F(RealConfigs, PromiseTheBytesStatedInIndexes) {
  size_t compared = 0;
  for (const char* folder : {"mixtral/Mixtral-8x7B-v0.1", "gpt-oss/gpt-oss-20b",
                             "phi-moe/Phi-tiny-MoE-instruct", "mixtral/WizardLM-2-8x22B"}) {
    fs::path index = root_ / folder / "model.safetensors.index.json";
    if (!fs::exists(index)) index += ".gz";
    const auto promised = Open(folder);
    ASSERT_TRUE(promised) << promised.error().message;
    uint64_t bytes = 0;
    std::set<std::string> names;
    for (const TensorEntry& entry : promised->model.checkpoint().tensors()) {
      bytes += entry.bytes;
      names.insert(entry.name);
    }
    const std::vector<std::string> real = IndexNames(index);
    EXPECT_EQ(names, std::set<std::string>(real.begin(), real.end())) << folder;
    EXPECT_EQ(bytes, Parse(index).at("metadata").at("total_size").get<uint64_t>()) << folder;
    ++compared;
  }
  EXPECT_EQ(compared, 4u);
}

}  // namespace
}  // namespace moepack
