#include "libshard/import/scores_file.h"

#include <nlohmann/json.hpp>

#include "tests/libshard/import/imported.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;

Error ScoresError(const std::function<void(Json&)>& change) {
  auto document = ParseJson("scores.json", FixtureBytes("scores.json"));
  EXPECT_TRUE(document);
  change(*document);
  return ImportError(WriteJson(*document));
}

TEST(ScoresFile, TheFixtureHasTheGatesOfTheProfile) {
  ImportOptions gates = ForTiny();
  gates.basis = ScoreBasis::kGateMass;
  ExpertScores expected = Imported("profile.json", gates);
  expected.format = "moepack-scores";
  expected.digest.clear();
  ExpertScores found = Imported("scores.json", ForTiny());
  found.digest.clear();
  EXPECT_TRUE(found == expected);
}

TEST(ScoresFile, ReportsItsWarningsWithItsName) {
  auto document = ParseJson("scores.json", FixtureBytes("scores.json"));
  ASSERT_TRUE(document);
  (*document)["warnings"] = Json::parse(R"(["the measurement was short"])");
  EXPECT_THAT(ImportedBytes(WriteJson(*document)).warnings,
              ElementsAre("in: the measurement was short"));
}

TEST(ScoresFile, ReadsBackEveryImport) {
  for (const char* name : {"profile.json", "imatrix.gguf", "hot-cache-runtime.json",
                           "mesh-analyzer.csv", "reap.json", "sglang.json", "expert-list.jsonl"}) {
    ExpertScores expected = Imported(name, ForTiny());
    ExpertScores found = ImportedBytes(WriteJson(ScoresToJson(expected)), ForTiny());
    EXPECT_EQ(found.format, "moepack-scores");
    for (std::string& warning : expected.warnings) warning = "in: " + warning;
    for (ExpertScores* scores : {&expected, &found}) {
      scores->format.clear();
      scores->digest.clear();
    }
    EXPECT_TRUE(found == expected) << name;
  }
}

TEST(ScoresFile, TokensAndSuperExpertsAreKept) {
  ExpertScores scores;
  scores.basis = ScoreBasis::kWeightedNorm;
  scores.layers = {{2, 3, 1}};
  scores.sessions = {{"a", "b", 5, {0.1F, 0, 3e30F}, {{7, 2}, {9, 1}}}};
  scores.super_experts[2] = {1, 2};
  const auto read = ScoresFromJson("in", ScoresToJson(scores));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->sessions, scores.sessions);
  EXPECT_EQ(read->super_experts, scores.super_experts);
}

TEST(ScoresFile, NamesTheFieldThatContradictsTheFormat) {
  EXPECT_EQ(ScoresError([](Json& j) { j["version"] = 2; }).message,
            "in: version: expected 1, found 2");
  EXPECT_EQ(ScoresError([](Json& j) { j["router_digest"] = "12"; }).message,
            "in: router_digest: expected 32 hexadecimal digits or no text, found \"12\"");
  EXPECT_EQ(ScoresError([](Json& j) { j["basis"] = "mass"; }).message,
            "in: basis: expected \"count\", \"gate\" or \"reap\", found \"mass\"");
  EXPECT_EQ(ScoresError([](Json& j) { j["layers"][1]["experts"] = 5000; }).message,
            "in: layers: experts: expected 1 to 4096, found 5000");
  EXPECT_EQ(ScoresError([](Json& j) { j["layers"][1] = 5; }).message,
            "in: layers: expected objects, found 5");
  EXPECT_EQ(ScoresError([](Json& j) { j["layers"][1]["layer"] = 0; }).message,
            "in: layers: expected ascending numbers, found 0 after 0");
  EXPECT_EQ(ScoresError([](Json& j) { j["layers"][1]["top_k"] = uint64_t{1} << 40; }).message,
            "in: layers: top_k: expected a number below 2^32, found 1099511627776");
  EXPECT_EQ(ScoresError([](Json& j) { j["sessions"][1]["scores"].erase(0); }).message,
            "in: session \"letter\": scores: expected one list per layer, found an array of 2 "
            "values");
  EXPECT_EQ(ScoresError([](Json& j) { j["sessions"][1]["scores"][2].erase(0); }).message,
            "in: session \"letter\": layer 2: scores: expected 16, found 15");
  EXPECT_EQ(ScoresError([](Json& j) { j["sessions"][1]["scores"][2][3] = -1; }).message,
            "in: session \"letter\": layer 2: expert 3: expected a finite score, not negative, "
            "found -1");
  EXPECT_EQ(ScoresError([](Json& j) { j["sessions"][1]["scores"][2][3] = 1e60; }).message,
            "in: session \"letter\": layer 2: expert 3: expected a finite score, not negative, "
            "found inf");
  EXPECT_EQ(ScoresError([](Json& j) { j["sessions"] = Json::array(); }).message,
            "in: sessions: expected at least one, found none");
  EXPECT_EQ(ScoresError([](Json& j) { j["sessions"][0] = 1; }).message,
            "in: sessions: expected objects, found 1");
  EXPECT_EQ(ScoresError([](Json& j) { j["co_selection"].erase(0); }).message,
            "in: co_selection: expected one list per layer, found an array of 2 values");
  EXPECT_EQ(ScoresError([](Json& j) { j["co_selection"][0].erase(0); }).message,
            "in: co_selection: layer 0: pairs: expected one count per pair of experts, found an "
            "array of 119 values");
  EXPECT_EQ(ScoresError([](Json& j) { j["warnings"] = Json::parse("[1]"); }).message,
            "in: warnings: expected sentences, found an array of 1 value");
}

TEST(ScoresFile, TokenCountsAreAscendingAndComplete) {
  const auto error = [](const char* ids, const char* counts) {
    return ScoresError([&](Json& j) {
             j["sessions"][0]["token_counts"]["ids"] = Json::parse(ids);
             j["sessions"][0]["token_counts"]["counts"] = Json::parse(counts);
           })
        .message;
  };
  const std::string ascending =
      "in: session \"essay\": token_counts: ids: expected ascending ids, one per count, found an "
      "array of 2 values";
  EXPECT_EQ(error("[3, 2]", "[1, 1]"), ascending);
  EXPECT_EQ(error("[3, 4]", "[1]"), ascending);
  EXPECT_EQ(error("[3, 4]", "[1, -1]"),
            "in: session \"essay\": token_counts: counts: expected counts, found an array of 2 "
            "values");
}

TEST(ScoresFile, RefusesADuplicateSession) {
  EXPECT_EQ(ScoresError([](Json& j) { j["sessions"][1]["name"] = "essay"; }).message,
            "in: session \"essay\": expected once, found twice");
}

}  // namespace
}  // namespace moepack
