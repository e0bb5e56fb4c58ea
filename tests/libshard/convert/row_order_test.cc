#include "libshard/convert/row_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<uint64_t> Rows(const RowLayout& layout, uint64_t rows) {
  std::vector<uint64_t> out;
  const std::vector<RowRun> runs = RowsOf(layout, rows).value();
  for (const RowRun& run : runs) {
    for (uint64_t i = 0; i < run.count; ++i) out.push_back(run.first + i);
  }
  return out;
}

TEST(RowOrder, InterleavesTheHalvesOfEveryHead) {
  EXPECT_THAT(Rows({RowOrder::kRope, {1, 9}}, 6), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(Rows({RowOrder::kRope, {2, 9}}, 8), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
}

TEST(RowOrder, InterleavesKeysByTheNumberOfKeyHeads) {
  EXPECT_THAT(Rows({RowOrder::kRopeKv, {4, 1}}, 4), ElementsAre(0, 2, 1, 3));
}

TEST(RowOrder, CutsHalves) {
  EXPECT_THAT(RowsOf({RowOrder::kFirstHalf}, 6).value(), ElementsAre(RowRun{0, 3}));
  EXPECT_THAT(RowsOf({RowOrder::kSecondHalf}, 6).value(), ElementsAre(RowRun{3, 3}));
}

TEST(RowOrder, TakesEveryOtherRow) {
  EXPECT_THAT(Rows({RowOrder::kEvenRows}, 6), ElementsAre(0, 2, 4));
  EXPECT_THAT(Rows({RowOrder::kOddRows}, 6), ElementsAre(1, 3, 5));
  EXPECT_FALSE(RowsOf({RowOrder::kEvenRows}, 5));
}

TEST(RowOrder, SplitsJoinedProjections) {
  const HeadShape shape = {2, 1};  // two query heads, one key head, one value head
  EXPECT_THAT(Rows({RowOrder::kJoinedQuery, shape}, 16), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(Rows({RowOrder::kJoinedKey, shape}, 16), ElementsAre(8, 10, 9, 11));
  EXPECT_THAT(Rows({RowOrder::kJoinedValue, shape}, 16), ElementsAre(12, 13, 14, 15));
  EXPECT_THAT(RowsOf({RowOrder::kJoinedKey, shape}, 15).error().message,
              HasSubstr("the same number for each of 2 query heads and 1 key and value heads"));
}

TEST(RowOrder, SplitsTheProjectionOfAnIndexer) {
  const HeadShape shape = {.index_heads = 2, .index_size = 3};
  EXPECT_THAT(RowsOf({RowOrder::kIndexQuery, shape}, 9).value(), ElementsAre(RowRun{0, 6}));
  EXPECT_THAT(RowsOf({RowOrder::kIndexKey, shape}, 9).value(), ElementsAre(RowRun{6, 3}));
  EXPECT_EQ(RowsOf({RowOrder::kIndexKey, shape}, 8).error().message,
            "rows: expected 3 for each of 2 query heads and the keys, found 8");
}

TEST(RowOrder, TakesTheValueRowsOfEveryHead) {
  const HeadShape shape = {.heads = 2, .mla_key_size = 3, .mla_value_size = 2};
  EXPECT_THAT(Rows({RowOrder::kMlaValues, shape}, 10), ElementsAre(3, 4, 8, 9));
  EXPECT_EQ(RowsOf({RowOrder::kMlaValues, shape}, 12).error().message,
            "rows: expected 5 for each of 2 heads, found 12");
  EXPECT_FALSE(RowsOf({RowOrder::kMlaValues}, 0)) << "no heads";
}

// Two key heads of two rows, four value heads of one.
constexpr HeadShape kLinear = {
    .linear_key_heads = 2, .linear_value_heads = 4, .linear_key_size = 2, .linear_value_size = 1};

TEST(RowOrder, SortsTheGroupsOfKeyHeads) {
  // A group: q q k k v v z z.
  EXPECT_THAT(Rows({RowOrder::kQkvOfGroups, kLinear}, 16),
              ElementsAre(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13));
  EXPECT_THAT(Rows({RowOrder::kZOfGroups, kLinear}, 16), ElementsAre(6, 7, 14, 15));
  EXPECT_THAT(RowsOf({RowOrder::kZOfGroups, kLinear}, 18).error().message,
              HasSubstr("8 for each of 2 key heads, found 18"));
}

TEST(RowOrder, TilesValueHeads) {
  // Heads 0 and 1 belong to the first key head, 2 and 3 to the second.
  EXPECT_THAT(Rows({RowOrder::kTiledHeads, kLinear}, 4), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(Rows({RowOrder::kTiledHeads, kLinear}, 8), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
  EXPECT_THAT(Rows({RowOrder::kTiledTail, kLinear}, 12),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 9, 11));
  HeadShape same = kLinear;
  same.linear_key_heads = 4;
  EXPECT_THAT(Rows({RowOrder::kTiledHeads, same}, 4), ElementsAre(0, 1, 2, 3));
}

TEST(RowOrder, RefusesHeadsOfLinearAttentionThatDoNotFit) {
  EXPECT_THAT(RowsOf({RowOrder::kTiledHeads, kLinear}, 6).error().message,
              HasSubstr("the same number for each of 4 value heads, found 6"));
  EXPECT_THAT(RowsOf({RowOrder::kTiledTail, kLinear}, 13).error().message,
              HasSubstr("8 of queries and keys and 4 of values, found 13"));
  HeadShape odd = kLinear;
  odd.linear_value_heads = 3;
  for (const RowOrder order : {RowOrder::kTiledHeads, RowOrder::kTiledTail, RowOrder::kQkvOfGroups,
                               RowOrder::kZOfGroups}) {
    EXPECT_THAT(RowsOf({order, odd}, 12).error().message, HasSubstr("expected a multiple of 2"));
    EXPECT_FALSE(RowsOf({order}, 12)) << "no heads";
  }
}

TEST(RowOrder, RefusesRowsThatDoNotFit) {
  EXPECT_EQ(RowsOf({RowOrder::kRope, {4, 2}}, 12).error().message,
            "rows: expected an even number for each of 4 heads, found 12");
  EXPECT_FALSE(RowsOf({RowOrder::kRope, {0, 0}}, 4)) << "no heads";
  EXPECT_FALSE(RowsOf({RowOrder::kRope, {1, 1}}, 1u << 25)) << "rows that no order can number";
  EXPECT_THAT(RowsOf({RowOrder::kFirstHalf}, 5).error().message, HasSubstr("even number"));
}

TensorEntry RowOrderEntry(std::vector<uint64_t> shape) {
  TensorEntry entry;
  entry.name = "t";
  entry.shape = std::move(shape);
  entry.file = 3;
  entry.offset = 1000;
  entry.bytes = entry.Elements() * 2;
  return entry;
}

TEST(AppendRows, ReordersRowsByRangesThatAscendInOrder) {
  std::vector<SourceRange> ranges;
  const auto shape =
      AppendRows("t", RowOrderEntry({4, 5}), {{RowOrder::kRope, {1, 1}}, false, 70}, ranges);
  EXPECT_THAT(*shape, ElementsAre(4, 5));
  EXPECT_THAT(ranges, ElementsAre(SourceRange{3, 1000, 10, 70}, SourceRange{3, 1020, 10, 71},
                                  SourceRange{3, 1010, 10, 72}, SourceRange{3, 1030, 10, 73}));
}

TEST(AppendRows, TakesOneEntryPerHeadOfALongerVector) {
  std::vector<SourceRange> ranges;
  const RowPlacement placement{{RowOrder::kFirstOfHeads, {.heads = 3}}, false, 0};
  EXPECT_THAT(*AppendRows("t", RowOrderEntry({4}), placement, ranges), ElementsAre(3));
  EXPECT_THAT(ranges, ElementsAre(SourceRange{3, 1000, 6, 0}));
  EXPECT_THAT(AppendRows("t", RowOrderEntry({2}), placement, ranges).error().message,
              HasSubstr("expected at least 3, one per head, found 2"));
}

TEST(AppendRows, ReordersTheEntriesOfABias) {
  std::vector<SourceRange> ranges;
  const auto shape =
      AppendRows("t", RowOrderEntry({4}), {{RowOrder::kRope, {1, 1}}, false, 0}, ranges);
  EXPECT_THAT(*shape, ElementsAre(4));
  ASSERT_EQ(ranges.size(), 4u);
  EXPECT_EQ(ranges[1], (SourceRange{3, 1004, 2, 1}));
}

TEST(AppendRows, GivesEveryPackedExpertItsRanges) {
  std::vector<SourceRange> ranges;
  const auto whole = AppendRows("t", RowOrderEntry({2, 4, 3}), {{}, true, 50}, ranges);
  EXPECT_THAT(*whole, ElementsAre(2, 4, 3));
  EXPECT_THAT(ranges, ElementsAre(SourceRange{3, 1000, 24, 50}, SourceRange{3, 1024, 24, 51}));
  ranges.clear();
  const auto half =
      AppendRows("t", RowOrderEntry({2, 4, 3}), {{RowOrder::kSecondHalf}, true, 50}, ranges);
  EXPECT_THAT(*half, ElementsAre(2, 2, 3));
  EXPECT_THAT(ranges, ElementsAre(SourceRange{3, 1012, 12, 50}, SourceRange{3, 1036, 12, 51}));
}

TEST(AppendRows, NamesTheTensorWhoseRowsDoNotFit) {
  std::vector<SourceRange> ranges;
  const auto shape = AppendRows("f: tensor \"t\"", RowOrderEntry({3, 2}),
                                {{RowOrder::kFirstHalf}, false, 0}, ranges);
  ASSERT_FALSE(shape);
  EXPECT_EQ(shape.error().code, Code::kCorrupt);
  EXPECT_THAT(shape.error().message, HasSubstr("f: tensor \"t\": rows: expected"));
}

}  // namespace
}  // namespace moepack
