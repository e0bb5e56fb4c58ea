// libshard/sizing predicts to the byte what build and assemble write: every recipe, every layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/recipe/imatrix.h"
#include "libshard/recipe/recipe_list.h"
#include "libshard/sizing/node_bytes.h"
#include "manifest/node/assemble.h"
#include "manifest/write/bundle.h"

namespace moepack {
namespace {

using SizesByFile = std::map<std::string, uint64_t>;

SizesByFile SizesOfLayout(const std::vector<OutputFile>& files) {
  SizesByFile sizes;
  for (const OutputFile& file : files) sizes[file.path] = file.size;
  return sizes;
}

bool HoldsWeights(const fs::path& path) {
  return path.extension() == ".gguf" || path.extension() == ".safetensors";
}

SizesByFile SizesOnDisk(const fs::path& directory) {
  SizesByFile sizes;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file() || !HoldsWeights(entry.path())) continue;
    sizes[fs::relative(entry.path(), directory).generic_string()] = entry.file_size();
  }
  return sizes;
}

std::string TextOf(const SizesByFile& sizes) {
  std::string text;
  for (const auto& [file, bytes] : sizes) text += Cat(file, " ", bytes, "\n");
  return text;
}

struct FitSample {
  std::string name;
  fs::path source;
  std::optional<QuantizeOptions> gguf;
  uint32_t groups = 3;
  std::string overlay_file;
};

// Builds the sample, assembles its nodes, and compares the sizes of all files of weights.
void ExpectPredicted(const FitSample& sample) {
  SCOPED_TRACE(sample.name);
  const fixtures::TempDir dir;
  auto model = MoeModel::Open(sample.source);
  ASSERT_TRUE(model) << model.error().message;
  PlanOptions plan_options;
  plan_options.groups = sample.groups;
  plan_options.overlay_file = sample.overlay_file;
  const auto plan = MakePlan(*model, plan_options);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto sizer = NodeSizer::Make(*model, sample.gguf);
  ASSERT_TRUE(sizer) << sizer.error().message;
  const auto bundles = sizer->BundleFiles(*plan);
  ASSERT_TRUE(bundles) << bundles.error().message;

  manifest::WriteOptions write;
  write.gguf = sample.gguf;
  const std::string out = (dir / "out").string();
  const auto written = manifest::WriteDistribution(*model, *plan, out, write);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(TextOf(SizesOfLayout(*bundles)), TextOf(SizesOnDisk(out)));

  for (uint32_t group = 0; group < sample.groups; ++group) {
    const auto node = sizer->NodeFiles(*plan, group);
    manifest::AssembleOptions options;
    options.group = group;
    const std::string directory = (dir / Cat("node-", group)).string();
    const auto assembled = manifest::AssembleNode(out, directory, options);
    EXPECT_EQ(node.has_value(), assembled.has_value())
        << (node ? "" : node.error().message) << (assembled ? "" : assembled.error().message);
    if (!node || !assembled) continue;
    EXPECT_EQ(TextOf(SizesOfLayout(*node)), TextOf(SizesOnDisk(directory))) << "group " << group;
  }
}

QuantizeOptions ByRecipe(std::string_view recipe) {
  QuantizeOptions options;
  options.recipe.recipe = std::string(recipe);
  return options;
}

// An importance matrix for every matrix of the model, since some recipes require one.
void WriteFlatImatrix(const fs::path& source, const std::string& path) {
  const auto model = MoeModel::Open(source);
  ASSERT_TRUE(model) << model.error().message;
  const auto gguf = ToGguf(*model, {});
  ASSERT_TRUE(gguf) << gguf.error().message;
  Imatrix imatrix;
  imatrix.chunks = 1;
  imatrix.chunk_tokens = 512;
  for (const GgufTensor& tensor : gguf->tensors) {
    const size_t slices = std::max(1u, tensor.expert_count);
    imatrix.entries[tensor.name] = {std::vector<float>(slices * tensor.row_values(), 512),
                                    std::vector<float>(slices, 512)};
  }
  const Status written = WriteImatrix(path, imatrix);
  ASSERT_TRUE(written) << written.error().message;
}

fixtures::Options RowsOfBlocks() { return {.layers = 2, .hidden = 256, .ff = 256}; }

TEST(FitBytes, MatchABuildAndItsNodesForEveryRecipe) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir / "model", RowsOfBlocks()));
  const std::string imatrix = (dir / "imatrix.gguf").string();
  WriteFlatImatrix(dir / "model", imatrix);
  for (const Recipe& recipe : AllRecipes()) {
    QuantizeOptions options = ByRecipe(recipe.name);
    options.imatrix_file = imatrix;
    ExpectPredicted({std::string(recipe.name), dir / "model", options, 2, ""});
  }
}

TEST(FitBytes, MatchABuildAndItsNodesForTheTinyModelWithAnOverlay) {
  const std::string fixtures = MOEPACK_SOURCE_DIR "/fixtures/";
  const std::string overlay = fixtures + "tiny-overlay.json";
  ExpectPredicted({"source", fixtures + "tiny-moe", std::nullopt, 3, overlay});
  ExpectPredicted({"Q4_K_M", fixtures + "tiny-moe", ByRecipe("Q4_K_M"), 3, overlay});
  ExpectPredicted({"exact", fixtures + "tiny-moe", QuantizeOptions(), 3, overlay});
}

TEST(FitBytes, MatchABuildAndItsNodesForEveryLayout) {
  for (const std::string& layout : fixtures::Layouts()) {
    const fixtures::TempDir dir;
    ASSERT_TRUE(fixtures::MakeCheckpoint(layout, dir / "model"));
    ExpectPredicted({layout, dir / "model", std::nullopt, 2, ""});
  }
}

// Blocks for multi-token prediction that the conversion drops are in no file and on no node.
TEST(FitBytes, LeaveOutWhatTheConversionDrops) {
  for (const std::string layout : {"deepseek-v3", "glm4-moe", "qwen3-next", "gpt-oss"}) {
    const fixtures::TempDir dir;
    if (!fixtures::MakeCheckpoint(layout, dir / "model")) continue;
    for (const bool mtp : {true, false}) {
      QuantizeOptions options;
      options.convert.mtp = mtp;
      ExpectPredicted({Cat(layout, mtp ? "" : " --no-mtp"), dir / "model", options, 2, ""});
    }
  }
}

}  // namespace
}  // namespace moepack
