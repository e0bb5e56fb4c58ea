#include "libshard/replay/expert_layout.h"

#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "libshard/model/model.h"
#include "tests/libshard/model/model_for_test.h"

namespace moepack {
namespace {

constexpr const char* kTiny = MOEPACK_SOURCE_DIR "/fixtures/tiny-moe";

TEST(ExpertLayout, RangesAreRoundedOutToBlocks) {
  EXPECT_EQ(ReadsOf({{0, 0, 4096, 0}}), (ExpertReads{4096, 4096, 1}));
  EXPECT_EQ(ReadsOf({{0, 4095, 2, 0}}), (ExpertReads{2, 8192, 1}));
  EXPECT_EQ(ReadsOf({{0, 100, 0, 0}}), (ExpertReads{0, 0, 0}));
}

TEST(ExpertLayout, RangesWhoseBlocksTouchAreOneRead) {
  // Contiguous; in one block; in consecutive blocks; apart; in another file.
  EXPECT_EQ(ReadsOf({{0, 5000, 3000, 0}, {0, 0, 5000, 0}}), (ExpertReads{8000, 8192, 1}));
  EXPECT_EQ(ReadsOf({{0, 0, 10, 0}, {0, 100, 10, 0}}), (ExpertReads{20, 4096, 1}));
  EXPECT_EQ(ReadsOf({{0, 0, 10, 0}, {0, 5000, 10, 0}}), (ExpertReads{20, 8192, 1}));
  EXPECT_EQ(ReadsOf({{0, 0, 10, 0}, {0, 9000, 10, 0}}), (ExpertReads{20, 8192, 2}));
  EXPECT_EQ(ReadsOf({{0, 0, 10, 0}, {1, 0, 10, 0}}), (ExpertReads{20, 8192, 2}));
}

TEST(ExpertLayout, ExpertsOfACheckpointAreThreeTensors) {
  const auto model = MoeModel::Open(fs::path(kTiny));
  ASSERT_TRUE(model);
  const auto ranges = RangesOf(*model);
  ASSERT_TRUE(ranges);
  ASSERT_EQ(ranges->size(), 3u);
  ASSERT_EQ(ranges->at(1).size(), 16u);
  uint64_t bytes = 0;
  for (const SourceRange& range : ranges->at(1)[7]) bytes += range.bytes;
  EXPECT_EQ(ranges->at(1)[7].size(), 3u);
  EXPECT_EQ(bytes, 3u * 131072);
  const auto layout = LayoutFor("t", "m", *ranges, {{0, 16, 2}, {2, 16, 2}});
  ASSERT_TRUE(layout);
  ASSERT_EQ(layout->size(), 2u);
  EXPECT_EQ((*layout)[1][3].bytes, 393216u);
  EXPECT_GE((*layout)[1][3].block_bytes, 393216u);
}

TEST(ExpertLayout, AnotherModelIsRefused) {
  const ExpertRanges ranges = {{0, {{}, {}}}};
  const auto more = LayoutFor("t", "m", ranges, {{0, 3, 1}});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Code::kMismatch);
  EXPECT_EQ(more.error().message, "t: layer 0: experts: expected 2 as in m, found 3");
  const auto other = LayoutFor("t", "m", ranges, {{7, 2, 1}});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message, "t: layer 7: experts: expected 0 as in m, found 2");
}

TEST(ExpertLayout, AnIndexAloneHasNoByteRanges) {
  const MoeModel model =
      ModelForTest().Layers(1, 4, 2).Tensor({.pattern = "x"}, {}, "F32", {4}).NamesOnly().Build();
  const auto ranges = RangesOf(model);
  ASSERT_FALSE(ranges);
  EXPECT_EQ(ranges.error().code, Code::kUnsupported);
  EXPECT_EQ(ranges.error().message,
            Cat(model.checkpoint().source().string(),
                ": expected tensors with their places in files, found names alone"));
}

}  // namespace
}  // namespace moepack
