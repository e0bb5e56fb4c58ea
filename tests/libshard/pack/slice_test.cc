#include "libshard/pack/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TensorEntry Packed(std::vector<uint64_t> shape) {
  TensorEntry tensor;
  tensor.name = "packed";
  tensor.dtype = "U8";
  tensor.shape = std::move(shape);
  tensor.offset = 1000;
  tensor.bytes = tensor.Elements();
  return tensor;
}

TEST(SliceAxis, TakesOneRangePerExpertOfTheOuterAxis) {
  EXPECT_THAT(SliceAxis(Packed({4, 2, 5}), 0, 4, {1, 3}),
              ElementsAre(SourceRange{0, 1010, 10}, SourceRange{0, 1030, 10}));
}

TEST(SliceAxis, WalksTheOuterIndexesOfAnInnerAxis) {
  EXPECT_THAT(SliceAxis(Packed({2, 3, 5}), 1, 3, {0, 2}),
              ElementsAre(SourceRange{0, 1000, 5}, SourceRange{0, 1010, 5}, SourceRange{0, 1015, 5},
                          SourceRange{0, 1025, 5}));
}

TEST(SliceAxis, TakesTheRowsOfAnExpertFromAFoldedAxis) {
  EXPECT_THAT(SliceAxis(Packed({6, 5}), 0, 3, {1}), ElementsAre(SourceRange{0, 1010, 10}));
}

TEST(SliceAxis, AnEmptySelectionHasNoRanges) {
  EXPECT_TRUE(SliceAxis(Packed({0, 3}), 1, 3, {0}).empty());
}

TEST(PartSelection, ReadsPartsAndRefusesOthers) {
  const PartSelection parts = *ParseParts({"trunk", "group:1,assets"}, 3);
  EXPECT_FALSE(parts.all);
  EXPECT_TRUE(parts.WantsTrunk());
  EXPECT_TRUE(parts.WantsAssets());
  EXPECT_TRUE(parts.WantsGroup(1));
  EXPECT_FALSE(parts.WantsGroup(0));
  EXPECT_FALSE(parts.WantsOverlay());
  EXPECT_TRUE(ParseParts({}, 3)->all);
  for (const char* text : {"group:3", "group:", "group:x", "1", "", "everything"}) {
    const Result<PartSelection> parsed = ParseParts({text}, 3);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr("group:0 to group:2"));
  }
}

class SlicedLayout : public testing::TestWithParam<std::string> {};

// Whatever the layout: trunk and groups hold every source byte exactly once, and the tensors of
// each file fill it without holes. DeepSeek-V4's first layer is whole in every group.
TEST_P(SlicedLayout, TrunkAndGroupsHoldEverySourceByteExactlyOnce) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint(GetParam(), dir.path()));
  const Result<MoeModel> model = MoeModel::Open(dir.path());
  ASSERT_TRUE(model) << model.error().message;
  PlanOptions options;
  options.groups = 2;
  options.uniform = false;
  const Result<Plan> plan = MakePlan(*model, options);
  ASSERT_TRUE(plan) << plan.error().message;
  const Result<std::vector<OutputFile>> files = SliceSafetensors(*model, *plan, {});
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_EQ(files->size(), 3u);

  std::map<std::pair<uint32_t, uint64_t>, uint64_t> ranges;  // begin -> bytes
  for (const OutputFile& file : *files) {
    uint64_t next = file.prefix.size();
    for (const OutputTensor& tensor : file.tensors) {
      EXPECT_EQ(tensor.entry.offset, next);
      next += tensor.entry.bytes;
      uint64_t bytes = 0;
      for (const SourceRange& range : tensor.sources) {
        bytes += range.bytes;
        if (range.bytes == 0) continue;
        const bool first = ranges.emplace(std::pair(range.file, range.offset), range.bytes).second;
        const bool whole =
            GetParam() == "deepseek-v4" && tensor.entry.name.starts_with("layers.0.ffn.experts.");
        EXPECT_TRUE(first || whole) << tensor.entry.name;
      }
      EXPECT_EQ(bytes, tensor.entry.bytes) << tensor.entry.name;
      if (tensor.entry.format != nullptr) {
        EXPECT_EQ(tensor.entry.format->BytesFor(tensor.entry.Elements()), bytes);
      }
    }
    EXPECT_EQ(file.size, next);
  }
  std::map<uint32_t, uint64_t> covered;  // file -> end of what is covered without a gap
  for (const auto& [begin, bytes] : ranges) {
    const auto [file, offset] = begin;
    if (covered.count(file) == 0) covered[file] = model->checkpoint().files()[file].data_start;
    EXPECT_EQ(covered[file], offset);
    covered[file] = offset + bytes;
  }
  for (const auto& [file, end] : covered) EXPECT_EQ(end, model->checkpoint().files()[file].size);
}

INSTANTIATE_TEST_SUITE_P(AllLayouts, SlicedLayout, testing::ValuesIn(fixtures::Layouts()),
                         [](const auto& layout) {
                           std::string name = layout.param;
                           for (char& c : name) {
                             if (!isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

class TinySlice : public testing::Test {
 protected:
  void SetUp() override {
    const auto model = MoeModel::Open(MOEPACK_SOURCE_DIR "/fixtures/tiny-moe");
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(*model);
    PlanOptions options;
    options.groups = 3;
    options.overlay_file = MOEPACK_SOURCE_DIR "/fixtures/tiny-overlay.json";
    const auto plan = MakePlan(*model_, options);
    ASSERT_TRUE(plan) << plan.error().message;
    plan_ = *plan;
  }
  std::vector<std::string> Paths(const SliceOptions& options) {
    std::vector<std::string> paths;
    const Result<std::vector<OutputFile>> files = SliceSafetensors(*model_, plan_, options);
    for (const OutputFile& file : *files) paths.push_back(file.path);
    return paths;
  }
  std::optional<MoeModel> model_;
  Plan plan_;
};

TEST_F(TinySlice, NamesItsFilesAsDocumented) {
  EXPECT_THAT(Paths({}),
              ElementsAre("trunk/trunk.safetensors", "groups/000/experts.safetensors",
                          "groups/001/experts.safetensors", "groups/002/experts.safetensors",
                          HasSubstr("overlays/" + plan_.overlays[0].version + "/experts")));
}

TEST_F(TinySlice, WritesOnlyTheSelectedParts) {
  SliceOptions options;
  options.parts = *ParseParts({"group:2"}, 3);
  EXPECT_THAT(Paths(options), ElementsAre("groups/002/experts.safetensors"));
}

TEST_F(TinySlice, SplitsLargePartsBetweenTensors) {
  SliceOptions options;
  options.max_part_size = 1'000'000;
  const auto files = SliceSafetensors(*model_, plan_, options);
  ASSERT_TRUE(files);
  size_t trunk_files = 0;
  for (const OutputFile& file : *files) {
    if (file.role == Role::kTrunk) ++trunk_files;
    EXPECT_LE(file.size - file.prefix.size(), options.max_part_size);
  }
  EXPECT_GT(trunk_files, 1u);
  EXPECT_THAT(files->front().path, HasSubstr("trunk/trunk-00001-of-0000"));
}

TEST_F(TinySlice, KeepsTheRemainderOnlyOnRequest) {
  for (auto& [layer, ids] : plan_.groups[0].owned) {
    plan_.remainder[layer] = {ids.back()};
    ids.pop_back();
  }
  EXPECT_EQ(Paths({}).size(), 5u);
  SliceOptions options;
  options.keep_remainder = true;
  EXPECT_THAT(Paths(options), testing::Contains("remainder/experts.safetensors"));
}

}  // namespace
}  // namespace moepack
