#include "tests/libshard/import/imported.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Counts(const std::string& value) { return R"({"logical_count": )" + value + "}"; }

TEST(SglangCounts, AddsUpSteps) {
  for (const char* name : {"sglang.json", "sglang-steps.json"}) {
    const ExpertScores scores = Imported(name, ForTiny());
    EXPECT_EQ(scores.basis, ScoreBasis::kCount) << name;
    EXPECT_EQ(SumOfScores(scores), ProfiledCounts()) << name;
  }
}

TEST(SglangCounts, BlocksWithoutExpertsHaveRowsOfZeros) {
  const ExpertScores scores = ImportedBytes(Counts("[[0, 0], [3, 4], [0, 0], [5, 6]]"));
  EXPECT_THAT(scores.layers, ElementsAre(MoeLayerShape{1, 2, 0}, MoeLayerShape{3, 2, 0}));
  EXPECT_THAT(scores.warnings,
              ElementsAre("in: 2 of 4 layers hold nothing and are taken for blocks without "
                          "experts"));
}

TEST(SglangCounts, APlacementIsRefusedWithTheReason) {
  const Error error = ImportError(FixtureBytes("sglang-placement.json"));
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.message,
            "in: logical_count: expected counts, found only physical_to_logical_map, which says "
            "where experts lie and not which were chosen");
}

TEST(SglangCounts, IgnoresOtherMembers) {
  const ExpertScores scores = ImportedBytes(
      R"({"records": [{"logical_count": [[9]]}], "logical_count": [[1, 2]], "x": [null, "t"]})");
  EXPECT_THAT(scores.sessions.at(0).scores, ElementsAre(1, 2));
}

TEST(SglangCounts, RefusesValuesThatAreNotCounts) {
  EXPECT_EQ(ImportError(Counts("[[1, 2], [3, 1.5]]")).message,
            "in: logical_count: expected counts, found 1.5 for expert 1 of row 1");
  // The sum of the steps would be one.
  EXPECT_EQ(ImportError(Counts("[[[9, 9]], [[-5, 1]]]")).message,
            "in: logical_count: expected counts, found -5 for expert 0 of row 0");
  EXPECT_THAT(ImportedBytes(Counts("[[1.0, 2e2]]")).sessions.at(0).scores, ElementsAre(1, 200));
}

TEST(SglangCounts, RefusesAnyOtherNesting) {
  const std::string nesting =
      "in: logical_count: expected [layers][experts] or [steps][layers][experts], found another "
      "nesting";
  for (const char* value :
       {"7", "[1, 2]", "[[[[1]]]]", "[[1], [[2]]]", "[[[1]], [2]]", "[[1, {\"a\": 2}]]"}) {
    EXPECT_EQ(ImportError(Counts(value)).message, nesting) << value;
  }
}

TEST(SglangCounts, RowsOfStepsMustBeEquallyLong) {
  const std::string uneven =
      "in: logical_count: expected rows of equal length in every step, found another length";
  for (const char* value :
       {"[[[1, 2]], [[1]]]", "[[[1]], [[1, 2]]]", "[[[1], [2]], [[1]]]", "[[[1]], [[1], [2]]]"}) {
    EXPECT_EQ(ImportError(Counts(value)).message, uneven) << value;
  }
}

TEST(SglangCounts, RefusesValuesThatAreNotNumbers) {
  EXPECT_EQ(ImportError(Counts("[[1, null]]")).message,
            "in: logical_count: expected lists of numbers, found null");
  EXPECT_EQ(ImportError(Counts("[[\"1\"]]")).message,
            "in: logical_count: expected lists of numbers, found text");
  EXPECT_EQ(ImportError(Counts("[[true]]")).message,
            "in: logical_count: expected lists of numbers, found true or false");
  EXPECT_EQ(ImportError(Counts("[[], [1]]")).message,
            "in: logical_count: expected rows with numbers, found none");
  EXPECT_EQ(ImportError(Counts("[[1, -2]]")).message,
            "in: logical_count: expected counts, found -2 for expert 1 of row 0");
  EXPECT_EQ(ImportError(Counts("[]")).message, "in: layers: expected at least one, found none");
  EXPECT_THAT(ImportError(Counts("[[1")).message, HasSubstr("in: JSON: "));
}

TEST(SglangCounts, TooManyExpertsAreRefused) {
  std::string row = "[1";
  for (int i = 0; i < 4096; ++i) row += ",1";
  EXPECT_EQ(ImportError(Counts("[" + row + "]]")).message,
            "in: logical_count: expected at most 4096 experts, found more");
}

}  // namespace
}  // namespace moepack
