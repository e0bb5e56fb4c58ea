#include "tools/reports/runs/eval_read.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;

// With every field that a document can have.
EvalReport FullEvaluation() {
  EvalReport report = SomeEvaluation();
  runtime::EvalSummary& summary = report.summary;
  summary.reference = runtime::EvalBase{{100, -2.5, 12, 1}, runtime::LoopRate{2, 1, 0.25}};
  summary.quantization = summary.groups[0].split;
  summary.groups[1].loops = runtime::LoopRate{2, 2, 0.5};
  summary.least_kld = 1;
  summary.agreements = 1;
  summary.sessions[0].placed = PlacementAnswer{{}, 1, 0, 2.5, true, 32, 0.75};
  summary.sessions[0].by_table = 1;
  summary.rules = {{"table", 2, 0.5, 0.1, 1, 1}, {"race", 2, 0.5, 0.15, {}, {}}};
  report.calibrated = SomeQuantization(0.1, true).calibrated;
  report.failed = {"kld: expected <= 0.1, found 0.3"};
  return report;
}

std::string EvalErrorOf(const Json& document) {
  const auto read = EvalFromJson("e.json", document);
  return read ? "" : read.error().message;
}

TEST(EvalFromJsonTest, ReadsBackWhatEvalPrints) {
  for (const EvalReport& report : {FullEvaluation(), SomeEvaluation()}) {
    const Json document = EvalJson(report);
    const auto read = EvalFromJson("e.json", document);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(EvalJson(*read), document);
  }
}

TEST(EvalFromJsonTest, ReadsAModelWithoutGroups) {
  EvalReport report;
  report.summary.full = runtime::EvalBase{{100, -3, 20, 1}, std::nullopt};
  const Json document = EvalJson(report);
  const auto read = EvalFromJson("e.json", document);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->distribution);
  EXPECT_EQ(EvalJson(*read), document);
}

TEST(EvalFromJsonTest, ReadsDocumentsFromBeforeRecordsExisted) {
  Json document = EvalJson(SomeEvaluation());
  document.erase("quality");
  document.erase("versions");
  const auto read = EvalFromJson("e.json", document);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->quality);
}

TEST(EvalFromJsonTest, NamesTheFieldThatIsWrong) {
  const auto with = [](const char* place, const Json& value) {
    Json document = EvalJson(FullEvaluation());
    document[Json::json_pointer(place)] = value;
    return document;
  };
  EXPECT_EQ(EvalErrorOf(with("/format", "moepack-plan")),
            "e.json: format: expected \"moepack-evaluation\", found \"moepack-plan\"");
  EXPECT_EQ(EvalErrorOf(with("/version", 2u)), "e.json: version: expected 1, found 2");
  EXPECT_EQ(EvalErrorOf(with("/groups/1/capture/mean", 2)),
            "e.json: groups[1]: capture: mean: expected a number from 0 to 1, found 2");
  EXPECT_EQ(EvalErrorOf(with("/sessions/0/by_kld", "group 7")),
            "e.json: sessions[0]: by_kld: expected the label of a group, found \"group 7\"");
  EXPECT_THAT(EvalErrorOf(with("/sessions/1/captures", Json::array({0.5}))),
              HasSubstr("e.json: sessions[1]: captures: expected one number for each of 2 groups"));
  EXPECT_THAT(EvalErrorOf(with("/sessions/1/captures/0", -0.5)),
              HasSubstr("e.json: sessions[1]: captures: expected numbers from 0 to 1"));
  EXPECT_THAT(EvalErrorOf(with("/groups/1/capture/layers/0/layer", 9u)),
              HasSubstr("groups[1]: capture: layers: expected the same layers as before"));
  EXPECT_THAT(EvalErrorOf(with("/groups/0/capture/layers", Json::array())),
              HasSubstr("groups[1]: capture: layers: expected the same layers as before"));
  EXPECT_THAT(EvalErrorOf(with("/best", nullptr)), HasSubstr("e.json: best: expected an object"));
  EXPECT_THAT(EvalErrorOf(with("/groups/0/split", nullptr)),
              HasSubstr("e.json: groups[0]: split: expected an object here or under \"total\""));
  EXPECT_THAT(EvalErrorOf(with("/quality/tokens", "many")), HasSubstr("e.json: quality: tokens: "));
  EXPECT_EQ(EvalErrorOf(Json::array()), "e.json: expected an object, found an array of 0 values");
}

}  // namespace
}  // namespace moepack::cli
