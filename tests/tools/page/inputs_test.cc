#include "tools/page/inputs.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "libshard/import/scores_file.h"
#include "tests/tools/page/page_sample.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;

class PageInputFiles : public ::testing::Test {
 protected:
  PageInputFiles() { sample::Make().WriteTo(dir_.path() / "out"); }
  std::string Write(const std::string& name, const std::string& text) const {
    fixtures::WriteFile(dir_.path() / name, text);
    return Path(name);
  }
  std::string WriteDocument(const std::string& name, const Json& document) const {
    return Write(name, WriteJson(document));
  }
  std::string Path(const std::string& name) const { return (dir_.path() / name).string(); }
  static Error ErrorOf(const std::vector<std::string>& paths) {
    auto read = ReadPageInputs(paths);
    return read ? Error{Code::kInvalidArgument, "no error"} : read.error();
  }
  Json PlanDocument() const {
    const Plan plan = sample::MakePlan();
    return {{"format", "moepack-plan"},
            {"format_version", "1.0"},
            {"partition", PartitionToJson(plan)},
            {"overlays", OverlaysToJson(plan)}};
  }
  fixtures::TempDir dir_;
};

TEST_F(PageInputFiles, AreRecognizedByTheirContent) {
  const auto read = ReadPageInputs({WriteDocument("a", EvalJson(SomeEvaluation())), Path("out"),
                                    WriteDocument("b", ScoresToJson(SomeScores())),
                                    WriteDocument("c", RefitToJson([] {
                                                    RefitRecord record = SomeRefit();
                                                    record.model = std::string(16, '0');
                                                    record.plan = std::string(64, '0');
                                                    return record;
                                                  }()))});
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->files.size(), 4u);
  EXPECT_EQ(read->files[0].kind, "evaluation");
  EXPECT_EQ(read->files[1].kind, "distribution");
  EXPECT_EQ(read->files[1].path, Path("out"));
  EXPECT_EQ(read->files[2].kind, "statistics");
  EXPECT_EQ(read->files[3].kind, "refit");
  EXPECT_EQ(read->distribution_path, Path("out"));
  EXPECT_EQ(read->evaluations[0].name, "a");
  EXPECT_EQ(read->scores->sessions.size(), 2u);
  EXPECT_EQ(read->refits[0].outcomes.size(), 3u);
  // Its versions differ.
  ASSERT_EQ(read->warnings.size(), 1u);
  EXPECT_THAT(read->warnings[0], HasSubstr("a: it measures another split than that of "));
}

TEST_F(PageInputFiles, AcceptTheManifestAsTheDistribution) {
  const auto read = ReadPageInputs({Path("out/distribution.json")});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->distribution_path, Path("out"));
}

TEST_F(PageInputFiles, ForeignFilesAreRefusedByName) {
  for (const auto& [text, found] : std::vector<std::pair<std::string, std::string>>{
           {"{\"format\": \"other\"}", "found \"format\": \"other\""},
           {"{\"a\": 1}", "found a JSON object without a known \"format\""},
           {"<html>", "found no JSON object"},
           {"", "found no JSON object"}}) {
    const Error error = ErrorOf({Write("strange", text)});
    EXPECT_EQ(error.code, Code::kUnsupported) << error.message;
    EXPECT_EQ(error.message, Path("strange") + ": expected a document of moepack, " + found);
    EXPECT_THAT(error.hint, HasSubstr("distributions"));
    EXPECT_THAT(error.hint, HasSubstr("refit.json"));
  }
  EXPECT_EQ(ErrorOf({Path("absent.json")}).code, Code::kNotFound);
  EXPECT_EQ(ErrorOf({Write("cut.json", "{\"format\": ")}).code, Code::kCorrupt);
}

TEST_F(PageInputFiles, TwoInputsOfASingleKindAreRefused) {
  EXPECT_THAT(ErrorOf({Path("out"), Path("out/distribution.json")}).message,
              HasSubstr(": expected one distribution, found a second beside "));
  const std::string plan = WriteDocument("plan.json", PlanDocument());
  EXPECT_THAT(ErrorOf({plan, plan}).message, HasSubstr(": expected one plan, found a second"));
}

TEST_F(PageInputFiles, APlanNeedsAnInputThatKnowsTheLayers) {
  const std::string plan = WriteDocument("plan.json", PlanDocument());
  EXPECT_THAT(ErrorOf({plan}).message,
              HasSubstr("plan.json: layers: expected statistics or a distribution"));
  const auto read = ReadPageInputs({plan, WriteDocument("s", ScoresToJson(SomeScores()))});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->plan->groups.size(), 3u);
}

TEST_F(PageInputFiles, ThePlanOfAnotherSplitIsRefused) {
  Json document = PlanDocument();
  std::swap(document["partition"]["groups"][0], document["partition"]["groups"][1]);
  const Error error = ErrorOf({Path("out"), WriteDocument("plan.json", document)});
  EXPECT_EQ(error.code, Code::kMismatch) << error.message;
  EXPECT_THAT(error.message, HasSubstr("plan.json: partition: expected that of "));
}

TEST_F(PageInputFiles, StatisticsOfAnotherModelAreRefused) {
  ExpertScores scores = SomeScores();
  scores.layers[1].layer = 7;
  const Error error = ErrorOf({Path("out"), WriteDocument("s", ScoresToJson(scores))});
  EXPECT_EQ(error.code, Code::kMismatch) << error.message;
  EXPECT_THAT(error.message, HasSubstr("layer 7: expected no experts, found 6"));
}

TEST_F(PageInputFiles, TheRecordOfARefitBesideItsDistributionIsShownOnce) {
  RefitRecord record = SomeRefit();
  record.model = std::string(16, '0');
  record.plan = std::string(64, '0');
  for (RefitOutcome& outcome : record.outcomes) {
    outcome.accepted = false;
    outcome.expert_ids.clear();
    outcome.arrays.clear();
    outcome.sha256.clear();
  }
  sample::Distribution distribution = sample::Make();
  distribution.manifest.refit = std::make_shared<const RefitRecord>(record);
  distribution.manifest.versions.refit = RefitVersion(record);
  distribution.WriteTo(dir_.path() / "refitted");
  const std::string store = WriteDocument("refit.json", RefitToJson(record));
  const auto read = ReadPageInputs({Path("refitted"), store, store});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->refits.size(), 1u);
  EXPECT_EQ(read->files.size(), 2u);
}

TEST_F(PageInputFiles, AStoreIsReadFromItsDirectory) {
  CalibratedRecord record = SomeCalibration();
  record.model = std::string(16, '0');
  record.types = std::string(64, '0');
  std::filesystem::create_directories(dir_.path() / "out.calibrated");
  WriteDocument("out.calibrated/calibration.json", CalibratedToJson(record));
  const auto read = ReadPageInputs({Path("out.calibrated")});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->calibrations.size(), 1u);
  std::filesystem::create_directories(dir_.path() / "empty");
  const Error error = ErrorOf({Path("empty")});
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("empty: expected distribution.json, calibration.json or "));
}

TEST_F(PageInputFiles, AnEvaluationThatIsNamedTwiceIsShownOnce) {
  const std::string name = WriteDocument("a", EvalJson(SomeEvaluation()));
  const auto read = ReadPageInputs({Path("out"), name, name});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->evaluations.size(), 1u);
}

TEST_F(PageInputFiles, ReadWhatADistributionCarriesOfItsPlan) {
  sample::Distribution distribution = sample::Make();
  PlanExpectation expectation;
  expectation.scheme = "session";
  expectation.format = "moepack-statistics";
  expectation.digest = "d";
  expectation.sessions = 4;
  expectation.overall = {4, 0.9, 0.7, 0.8};
  expectation.groups.resize(3);
  expectation.concentration = {{1, 0.5}, {2, 0.25}};
  const Json sections = ExpectationToJson(expectation);
  distribution.manifest.original = std::make_shared<Json>(Json{
      {"calibration", sections["calibration"]}, {"quality", {{"expected", sections["expected"]}}}});
  distribution.WriteTo(dir_.path() / "expected");
  const auto read = ReadPageInputs({Path("expected")});
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(read->plan->expectation);
  EXPECT_EQ(read->plan->expectation->overall.mean, 0.9);
}

}  // namespace
}  // namespace moepack::cli
