#include "tests/libshard/import/imported.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(VllmAscend, RanksBecomeScores) {
  const ExpertScores scores = Imported("expert-list.jsonl", ForTiny());
  EXPECT_EQ(scores.basis, ScoreBasis::kCount);
  const std::vector<float>& all = scores.sessions.at(0).scores;
  EXPECT_EQ(all[8], 16.0F);        // the best of layer 0
  EXPECT_EQ(all[1], 1.0F);         // the last
  EXPECT_EQ(all[16 + 11], 16.0F);  // the best of layer 1
  EXPECT_THAT(scores.warnings,
              ElementsAre(StatisticsFixture("expert-list.jsonl") +
                          ": ranks and no counts: the scores only say the order, and shares of "
                          "them mean nothing"));
}

TEST(VllmAscend, AShortListNeedsTheModel) {
  const std::string list = "{\"1\": [2, 0]}\n";
  const Error error = ImportError(list);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.message, "in: layer 1: experts: expected all ids, found 2 without those between");
  ImportOptions options;
  options.model = {{1, 4, 1}};
  EXPECT_THAT(ImportedBytes(list, options).sessions.at(0).scores, ElementsAre(3, 0, 4, 0));
}

TEST(VllmAscend, IgnoresAPruneRatioInTheFile) {
  const ExpertScores scores = ImportedBytes("{\"expert_prune_ratio\": 0.5}\n\n{\"0\": [1, 0]}\r\n");
  EXPECT_THAT(scores.sessions.at(0).scores, ElementsAre(1, 2));
}

TEST(VllmAscend, NamesTheNumberOfAnInvalidLine) {
  const std::string good = "{\"0\": [1, 0]}\n";
  EXPECT_EQ(ImportError(good + "{\"first\": [0]}").message,
            "in: line 2: key: expected the number of a layer, found \"first\"");
  EXPECT_EQ(ImportError(good + "[0]").message,
            "in: line 2: expected an object, found an array of 1 value");
  EXPECT_EQ(ImportError(good + "{\"1\": [\"0\"]}").message,
            "in: line 2: layer 1: expected ids, found \"0\"");
  EXPECT_EQ(ImportError(good + "{\"1\": 4}").message,
            "in: line 2: layer 1: expected a list of at most 4096 ids, found 4");
  EXPECT_THAT(ImportError(good + "{\"1\": [").message, HasSubstr("in: line 2: JSON: "));
  EXPECT_EQ(ImportError(good + "{\"0\": [1, 0]}").message,
            "in: layer 0: expected once, found twice");
  EXPECT_EQ(ImportError("{\"0\": [1, 1]}", ImportOptions{{{0, 2, 1}}, {}, true, ""}).message,
            "in: line 1: layer 0: expert 1: expected once, found twice");
  const Error twice = ImportError("{\"0\": [0, 0]}");
  EXPECT_EQ(twice.code, Code::kCorrupt);
  EXPECT_EQ(twice.message, "in: line 1: layer 0: expert 0: expected once, found twice");
}

}  // namespace
}  // namespace moepack
