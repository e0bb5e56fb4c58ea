// docs/families.md has one row per family, and whatever a row says that the code also knows must
// match the code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "fixtures/generator.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/graph/model_spec.h"
#include "libshard/model/config.h"
#include "libshard/model/family.h"
#include "libshard/model/family_find.h"
#include "libshard/model/gguf_architectures.h"
#include "tests/conformance/real_files.h"

namespace moepack {
namespace {

// Folders of golden/convert and golden/convert-2026.
const std::map<std::string, std::string> kGolden = {
    {"deepseek-v3", "deepseek-v3"},
    {"glm4-moe", "glm-4.5"},
    {"gpt-oss", "gpt-oss"},
    {"kimi-k2.5", "kimi-k2.5"},
    {"llama4", "llama-4"},
    {"mixtral", "mixtral"},
    {"qwen2-moe", "qwen2-moe"},
    {"qwen3-moe", "qwen3-moe"},
    {"qwen3.5-moe", "qwen3.5-moe"},
    {"deepseek-v4", "deepseek-v4"},
    {"kimi-k3", "kimi-k3"},
    {"bailing-moe-v3", "ling-3"},
    {"mistral4", "mistral-4"},
    {"minimax-m3", "minimax-m3"},
    {"cohere2-moe", "cohere2moe"},
    {"nemotron-h", "nemotron-3-puzzle"},
    {"qwen4-exp", "qwen3.8-flash-next"},
    {"glm5", "glm-5.2"},
    {"granite-moe-hybrid", "granite-4-h"},
    {"hy3", "hy3"},
    {"laguna", "laguna"},
    {"lfm2-moe", "lfm2-moe"},
    {"qwen3-vl-moe", "qwen3-vl-moe"},
    {"exaone-moe", "exaone-moe"},
    {"solar-open", "solar-open"},
    {"afmoe", "afmoe"},
    {"smallthinker", "smallthinker"},
    {"grovemoe", "grovemoe"},
};

// A row of the table, cell by cell.
struct Row {
  std::string architectures, experts, routing, gguf, runs, special, tested;
};

std::string Trimmed(std::string text) {
  text.erase(0, text.find_first_not_of(' '));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::map<std::string, Row> ReadRows() {
  std::map<std::string, Row> rows;
  bool inside = false;
  for (const std::string& line :
       Split(ReadAll(fs::path(MOEPACK_SOURCE_DIR) / "docs/families.md"), '\n')) {
    if (line.starts_with("## ")) inside = line == "## Families";
    std::vector<std::string> cells = Split(line, '|');
    if (!inside || cells.size() < 2 || cells[1].starts_with("---")) continue;
    EXPECT_EQ(cells.size(), 10u) << line;
    cells.resize(10);
    for (std::string& cell : cells) cell = Trimmed(cell);
    if (cells[1] == "family") continue;
    const bool fresh = rows.emplace(cells[1], Row{cells[2], cells[3], cells[4], cells[5], cells[6],
                                                  cells[7], cells[8]})
                           .second;
    EXPECT_TRUE(fresh) << cells[1] << " has two rows";
  }
  return rows;
}

// The text between backticks.
std::set<std::string> Quotations(const std::string& text) {
  const std::vector<std::string> pieces = Split(text, '`');
  std::set<std::string> quoted;
  for (size_t i = 1; i < pieces.size(); i += 2) quoted.insert(pieces[i]);
  return quoted;
}

// The piece of a "tested" cell that starts with these words, without them; "" if there is none.
std::string PieceOf(const Row& row, const std::string& start) {
  for (const std::string& piece : Split(row.tested, ';')) {
    const std::string text = Trimmed(piece);
    if (text.starts_with(start)) return Trimmed(text.substr(start.size()));
  }
  return "";
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class FamiliesDoc : public testing::Test {
 protected:
  // Calls check(family, row) for every family that has a row.
  template <class Check>
  void ForEach(Check check) const {
    for (const Family& family : AllFamilies()) {
      const auto row = rows_.find(family.name);
      if (row == rows_.end()) continue;
      SCOPED_TRACE(family.name);
      check(family, row->second);
    }
  }
  const std::map<std::string, Row> rows_ = ReadRows();
};

TEST_F(FamiliesDoc, HasOneRowForEveryFamilyAndNoOther) {
  std::set<std::string> families, documented;
  for (const Family& family : AllFamilies()) families.insert(family.name);
  for (const auto& [name, row] : rows_) documented.insert(name);
  EXPECT_EQ(documented, families);
}

TEST_F(FamiliesDoc, NamesTheArchitectures) {
  ForEach([](const Family& family, const Row& row) {
    const std::set<std::string> names(family.architectures.begin(), family.architectures.end());
    EXPECT_EQ(Quotations(row.architectures), names);
  });
}

TEST_F(FamiliesDoc, SaysHowExpertsAreStored) {
  ForEach([](const Family& family, const Row& row) {
    const auto any = [&](auto holds) {
      return std::any_of(family.rules.begin(), family.rules.end(), [&](const TensorRule& rule) {
        return rule.part == Part::kExpert && holds(rule);
      });
    };
    EXPECT_EQ(Has(row.experts, "explicit"),
              any([](const TensorRule& rule) { return Has(rule.pattern, "{E}"); }));
    EXPECT_EQ(Has(row.experts, "packed"),
              any([](const TensorRule& rule) { return rule.expert_axis.has_value(); }));
    EXPECT_EQ(Has(row.experts, "axis 0"),
              any([](const TensorRule& rule) { return rule.expert_axis == 0; }));
    EXPECT_EQ(Has(row.experts, "folded"), any([](const TensorRule& rule) { return rule.folded; }));
  });
}

TEST_F(FamiliesDoc, SaysHowTheRouterWeighsExperts) {
  ForEach([](const Family& family, const Row& row) {
    EXPECT_EQ(Split(row.routing, ',')[0], GatingName(family.routing.gating));
    EXPECT_EQ(Has(row.routing, "not normalised"), !family.routing.normalize);
    const auto has = [&](Part part, std::string_view role) {
      return std::any_of(family.rules.begin(), family.rules.end(), [&](const TensorRule& rule) {
        return rule.part == part && (role.empty() || rule.role == role);
      });
    };
    EXPECT_EQ(Has(row.routing, "selection bias"), has(Part::kRouter, "selection_bias"));
    EXPECT_EQ(Has(row.routing, "shared"), has(Part::kShared, ""));
  });
}

TEST_F(FamiliesDoc, NamesTheArchitectureOfTheGgufOrSaysWhatIsMissing) {
  ForEach([](const Family& family, const Row& row) {
    if (const GgufConverter* converter = FindConverter(family.name)) {
      EXPECT_EQ(row.gguf, Cat("`", converter->architecture, "`"));
      return;
    }
    if (row.gguf == "unknown") return;
    const std::set<std::string> named = Quotations(row.gguf);
    ASSERT_EQ(named.size(), 1u) << row.gguf;
    EXPECT_EQ(row.gguf, Cat("no converter (`", *named.begin(), "`)"));
    EXPECT_NE(FindArchitecture(*named.begin()), nullptr) << row.gguf;
  });
}

TEST_F(FamiliesDoc, SaysWhichFamiliesTheRuntimeRuns) {
  ForEach([](const Family& family, const Row& row) {
    const GgufConverter* converter = FindConverter(family.name);
    const bool runs = converter != nullptr && FindRuntimeFamily(converter->architecture) != nullptr;
    EXPECT_EQ(row.runs, runs ? "yes" : "no");
  });
}

TEST_F(FamiliesDoc, ListsTheCheckpointsThatTestsUse) {
  std::map<std::string, std::set<std::string>> layouts;
  for (const std::string& layout : fixtures::Layouts()) {
    layouts[fixtures::DescribeCheckpoint(layout).family].insert(layout);
  }
  ForEach([&](const Family& family, const Row& row) {
    EXPECT_EQ(Quotations(PieceOf(row, "layout")), layouts[family.name]);
    const auto golden = kGolden.find(family.name);
    const std::string expected = golden == kGolden.end() ? "" : Cat("`", golden->second, "`");
    EXPECT_EQ(PieceOf(row, "golden"), expected);
    // tests/peer/layouts.mjs does this for every layout that converts.
    EXPECT_EQ(Has(row.tested, "generates"), FindConverter(family.name) != nullptr);
  });
}

fs::path SharedFolder() {
  const char* shared = std::getenv("MOEPACK_SHARED");
  return shared != nullptr ? fs::path(shared) : fs::path(MOEPACK_SOURCE_DIR) / "../shared";
}

// "3 indexes, 1 config" of the real folder, by family.
struct RealFiles {
  size_t indexes = 0, configs = 0;
};
std::string Text(const RealFiles& files) {
  std::string text;
  if (files.indexes > 0) text = Cat(files.indexes, files.indexes == 1 ? " index" : " indexes");
  if (files.configs > 0) {
    text +=
        Cat(text.empty() ? "" : ", ", files.configs, files.configs == 1 ? " config" : " configs");
  }
  return text;
}

TEST_F(FamiliesDoc, CountsTheRealFilesOfEveryFamily) {
  const fs::path root = SharedFolder() / "real";
  if (!fs::exists(root)) GTEST_SKIP() << "nothing counted: there is no folder " << root;
  std::map<std::string, RealFiles> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    const bool index = name.starts_with("model.safetensors.index.json");
    if (!index && name != "config.json") continue;
    const std::string folder = fs::relative(entry.path().parent_path(), root).generic_string();
    const auto config = ReadModelConfig(root / ConfigFolderOf(folder) / "config.json");
    const auto family =
        config ? FindFamily(folder, *config) : Result<const Family*>(config.error());
    if (family) ++(index ? files[(*family)->name].indexes : files[(*family)->name].configs);
  }
  ForEach([&](const Family& family, const Row& row) {
    EXPECT_EQ(PieceOf(row, "real:"), Text(files[family.name]));
  });
}

TEST(GoldenFolders, BelongToTheFamiliesInTheTable) {
  for (const auto& [family, folder] : kGolden) {
    fs::path config = SharedFolder() / "golden/convert" / folder / "config.json";
    if (!fs::exists(config))
      config = SharedFolder() / "golden/convert-2026" / folder / "config.json";
    if (!fs::exists(config)) GTEST_SKIP() << "not here: " << config;
    const auto read = ReadModelConfig(config);
    ASSERT_TRUE(read) << read.error().message;
    const auto found = FindFamily(config.string(), *read);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ((*found)->name, family);
  }
}

}  // namespace
}  // namespace moepack
