// A checkpoint split while it is converted to GGUF, and the same checkpoint converted to one GGUF
// and then split: both distributions hold the same bytes, expert by expert, and these are the bytes
// of the expert in the converted file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <set>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/format/checkpoint.h"
#include "tests/conformance/bundle_pieces.h"
#include "tests/libshard/convert/convertible_layouts.h"
#include "tests/libshard/convert/golden_listing.h"
#include "tests/tools/run_moepack.h"

namespace {

using moepack::cli::ToolRun;
using moepack::cli::Workspace;
using split::Pieces;
using testing::HasSubstr;
namespace fs = std::filesystem;

enum class From : uint8_t { kTree, kGolden, kLayout };

struct SourceCase {
  From from;
  std::string name, recipe;
};
void PrintTo(const SourceCase& test, std::ostream* out) { *out << test.name << " " << test.recipe; }

std::vector<SourceCase> SourceCases() {
  std::vector<SourceCase> cases;
  const auto add = [&](From from, const std::string& name) {
    for (const char* recipe : {"exact", "Q8_0", "Q4_K_M"}) cases.push_back({from, name, recipe});
  };
  add(From::kTree, "tiny-moe");
  for (const char* name : {"deepseek-v3", "glm-4.5", "gpt-oss", "kimi-k2.5", "llama-4", "mixtral",
                           "qwen2-moe", "qwen3-moe", "qwen3.5-moe"}) {
    add(From::kGolden, name);
  }
  cases.push_back({From::kGolden, "kimi-k2.5", "Q4_0"});  // which keeps the grid of its int4
  for (const std::string& layout : moepack::ConvertibleLayouts()) add(From::kLayout, layout);
  return cases;
}

class GgufSources : public testing::TestWithParam<SourceCase> {
 protected:
  void SetUp() override {
    const SourceCase& test = GetParam();
    source_ = workspace_ / test.name;
    if (test.from == From::kTree) source_ = workspace_ / "fixtures" / test.name;
    if (test.from != From::kGolden) {
      ASSERT_TRUE(test.from == From::kTree || fixtures::MakeCheckpoint(test.name, source_));
      return;
    }
    source_ = moepack::golden::Folder(test.name, "tokenizer_config.json");
    if (source_.empty()) GTEST_SKIP() << "no golden checkpoint " << test.name << " beside the tree";
  }

  void Run(const std::string& command) const {
    const ToolRun run = workspace_.Moepack(command);
    ASSERT_EQ(run.status, 0) << command << "\n" << run.err;
  }

  // Two groups, and an overlay, so that the ids of no node are contiguous.
  std::string Plan() const {
    const auto model = moepack::MoeModel::Open(workspace_ / "full.gguf");
    EXPECT_TRUE(model) << model.error().message;
    if (model) fixtures::WriteFile(workspace_ / "overlay.json", split::OverlayText(*model));
    return " --groups 2 --overlay-file overlay.json --no-verify --format gguf";
  }

  Workspace workspace_;
  fs::path source_;
};

// Every piece is at its offset in the converted file.
void ExpectPiecesOf(const fs::path& gguf, const Pieces& pieces) {
  const auto whole = moepack::Checkpoint::Open(gguf);
  ASSERT_TRUE(whole) << whole.error().message;
  const std::string file = fixtures::ReadFile(gguf);
  for (const auto& [name, piece] : pieces) {
    const moepack::TensorEntry* entry = whole->Find(std::get<1>(name));
    ASSERT_NE(entry, nullptr) << split::PieceText(name);
    ASSERT_EQ(piece.dtype, entry->dtype) << split::PieceText(name);
    const int64_t id = std::get<2>(name);
    const uint64_t bytes = id < 0 ? entry->bytes : entry->bytes / entry->shape[0];
    const uint64_t at = entry->offset + (id < 0 ? 0 : static_cast<uint64_t>(id) * bytes);
    ASSERT_TRUE(piece.bytes == file.substr(at, bytes)) << split::PieceText(name);
  }
}

TEST_P(GgufSources, ADistributionOfTheCheckpointAndOneOfItsGgufHoldTheSameBytes) {
  const std::string source = "'" + source_.string() + "'";
  // The experts of these are already quantized.
  const std::set<std::string> names = {"gpt-oss", "kimi-k3", "deepseek-v4"};
  const bool quantized = names.contains(GetParam().name) && GetParam().recipe != "exact";
  const std::string recipe = GetParam().recipe + (quantized ? " --allow-requantize" : "");
  ASSERT_NO_FATAL_FAILURE(Run("quantize " + source + " --recipe " + recipe + " -o full.gguf"));
  const std::string plan = Plan();
  ASSERT_NO_FATAL_FAILURE(Run("build " + source + plan + " --quantize " + recipe + " -o direct"));
  ASSERT_NO_FATAL_FAILURE(Run("build full.gguf" + plan + " -o converted"));
  const Pieces direct = split::PiecesOf(workspace_ / "direct");
  split::ExpectSamePieces(direct, split::PiecesOf(workspace_ / "converted"));
  ExpectPiecesOf(workspace_ / "full.gguf", direct);
  EXPECT_TRUE(moepack::cli::ReadFile(workspace_ / "direct/head/head.gguf") ==
              moepack::cli::ReadFile(workspace_ / "converted/head/head.gguf"));
}

std::string GgufSourcesTestName(const testing::TestParamInfo<SourceCase>& info) {
  const char* from = info.param.from == From::kGolden ? "golden_" : "";
  std::string name = from + info.param.name + "_" + info.param.recipe;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, GgufSources, testing::ValuesIn(SourceCases()), GgufSourcesTestName);

// The rows of quantized sources are read through the checkpoint, which a task must keep open.
TEST(GgufSourcesInTasks, TasksOfAQuantizedSourceMakeTheBytesOfOneRun) {
  for (const std::string layout : {"deepseek-v3", "kimi-k2.5"}) {
    const Workspace workspace;
    ASSERT_TRUE(fixtures::MakeCheckpoint(layout, workspace / "source"));
    const std::string build = "build source --groups 2 --quantize Q8_0 ";
    for (const std::string& command :
         {build + "--no-verify -o whole", build + "--task 0/2 -o parts",
          build + "--task 1/2 -o parts", std::string("join parts.tasks -o parts")}) {
      const ToolRun run = workspace.Moepack(command);
      ASSERT_EQ(run.status, 0) << layout << ": " << command << "\n" << run.err;
    }
    for (const char* file : {"trunk/trunk.gguf", "groups/001/experts.gguf", "distribution.json"})
      EXPECT_TRUE(moepack::cli::ReadFile(workspace / "whole" / file) ==
                  moepack::cli::ReadFile(workspace / "parts" / file))
          << layout << ": " << file;
  }
}

TEST(GgufSourcesRefused, LayoutsThatAConverterRefusesAreNamedWithTheReason) {
  for (const moepack::RefusedSource& refusal : moepack::kRefusedSources) {
    const Workspace workspace;
    ASSERT_TRUE(fixtures::MakeCheckpoint(refusal.layout, workspace / "source"));
    const ToolRun run = workspace.Moepack("quantize source --recipe BF16 -o full.gguf");
    EXPECT_EQ(run.status, 4) << refusal.layout;
    EXPECT_THAT(run.err, HasSubstr(refusal.message));
  }
}

}  // namespace
