#include "libshard/import/import.h"

#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"
#include "tests/libshard/import/imported.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Import, EveryFixtureIsRecognizedByItsContent) {
  const std::vector<std::pair<const char*, const char*>> expected = {
      {"profile.json", "moepack-statistics"},
      {"scores.json", "moepack-scores"},
      {"imatrix.gguf", "imatrix"},
      {"hot-cache-initial.json", "hot-cache"},
      {"hot-cache-runtime.json", "hot-cache"},
      {"hot-cache-old.json", "hot-cache"},
      {"mesh-analyzer.csv", "mesh-ranking"},
      {"mesh-headings.csv", "mesh-ranking"},
      {"mesh-cache.csv", "mesh-ranking"},
      {"reap.json", "reap"},
      {"reap.safetensors", "reap-tensors"},
      {"sglang.json", "sglang"},
      {"sglang-steps.json", "sglang"},
      {"expert-list.jsonl", "vllm-ascend"},
      {"route-trace.csv", "route-trace"}};
  for (const auto& [name, format] : expected) {
    const ExpertScores scores = Imported(name, ForTiny());
    EXPECT_EQ(scores.format, format) << name;
    EXPECT_EQ(scores.layers, TinyLayers()) << name;
    const std::string bytes = FixtureBytes(name);
    EXPECT_EQ(scores.digest, Xxh3Hex(std::as_bytes(std::span(bytes)))) << name;
  }
}

TEST(Import, FormatsHaveDistinctNames) {
  for (const Importer* importer : Importers()) EXPECT_EQ(FindImporter(importer->name), importer);
  EXPECT_EQ(FindImporter("none"), nullptr);
}

TEST(Import, AFileOfNoKnownFormatIsRefused) {
  const Error error = ImportError("hello");
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.message,
            "in: expected statistics of experts, found a file of no format that is known");
  EXPECT_THAT(error.hint, HasSubstr("hot-cache"));
  EXPECT_EQ(ImportError("").code, Code::kUnsupported);
}

TEST(Import, TheFormatCanBeGiven) {
  ImportOptions options;
  options.format = "sglang";
  const Error error = ImportError(R"({"counts": [[1]]})", options);
  EXPECT_EQ(error.message, "in: logical_count: expected counts, found none");
  options.format = "csv";
  EXPECT_THAT(
      ImportError("x", options).message,
      HasSubstr("format of statistics: expected one of moepack-scores, moepack-statistics, "));
}

TEST(Import, ADirectoryIsRefused) {
  const auto read = ReadExpertScores(std::vector<std::string>{MOEPACK_SOURCE_DIR "/fixtures"}, {});
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("expected a file of statistics, found a directory"));
}

TEST(Import, AMissingFileIsNotFound) {
  const auto read = ReadExpertScores(std::vector<std::string>{"/none/s.json"}, {});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kNotFound);
}

TEST(Import, ConcatenatesTheSessionsOfSeveralFiles) {
  const std::vector<std::string> paths = {StatisticsFixture("sglang.json"),
                                          StatisticsFixture("imatrix.gguf")};
  const auto joined = ReadExpertScores(paths, ForTiny());
  ASSERT_TRUE(joined) << joined.error().message;
  ASSERT_EQ(joined->sessions.size(), 2u);
  EXPECT_EQ(joined->sessions[0].name, "sglang.json");
  EXPECT_EQ(joined->sessions[1].name, "imatrix.gguf");
  EXPECT_EQ(joined->sessions[0].scores, joined->sessions[1].scores);
  EXPECT_EQ(joined->format, "several");
  const std::string digests =
      Imported("sglang.json", ForTiny()).digest + Imported("imatrix.gguf", ForTiny()).digest;
  EXPECT_EQ(joined->digest, Xxh3Hex(std::as_bytes(std::span(digests))));
}

TEST(Import, RefusesTheSameFileTwice) {
  const std::string path = StatisticsFixture("profile.json");
  const auto joined = ReadExpertScores(std::vector<std::string>{path, path}, {});
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Code::kInvalidArgument);
  EXPECT_EQ(joined.error().message,
            path +
                ": session \"essay\": expected one that is not there yet, found it a second "
                "time");
}

ExpertScores OneLayer(const char* name) {
  ExpertScores scores;
  scores.layers = {{0, 2, 1}};
  scores.sessions = {{name, "", 3, {1, 2}, {}}};
  scores.co_selection = {{5}};
  return scores;
}

Error JoinError(const std::function<void(ExpertScores&)>& change) {
  ExpertScores into = OneLayer("a"), other = OneLayer("b");
  change(other);
  const Status joined = JoinScores("b.json", other, into);
  if (joined) return {Code::kInterrupted, "were joined"};
  return joined.error();
}

TEST(Import, OnlyScoresOfOneModelAndKindAreJoined) {
  EXPECT_EQ(JoinError([](ExpertScores& s) { s.basis = ScoreBasis::kGateMass; }).message,
            "b.json: scores: expected count, found gate");
  EXPECT_EQ(JoinError([](ExpertScores& s) {
              s.layers.push_back({1, 2, 1});
            }).message,
            "b.json: layers: expected 1, found 2");
  EXPECT_EQ(JoinError([](ExpertScores& s) { s.layers[0].layer = 4; }).message,
            "b.json: layer: expected 0, found 4");
  EXPECT_EQ(JoinError([](ExpertScores& s) { s.layers[0].expert_count = 3; }).message,
            "b.json: layer 0: experts: expected 2, found 3");
  EXPECT_EQ(JoinError([](ExpertScores& s) { s.layers[0].top_k = 2; }).message,
            "b.json: layer 0: top-k: expected 1, found 2");
  EXPECT_EQ(JoinError([](ExpertScores& s) { s.layers[0].top_k = 0; }).message, "were joined");
  ExpertScores into = OneLayer("a"), other = OneLayer("b");
  into.router_digest = "1";
  other.router_digest = "2";
  EXPECT_EQ(JoinScores("b.json", other, into).error().message,
            "b.json: router digest: expected 1, found 2");
}

TEST(Import, JoiningAddsPairsAndKeepsSuperExpertsOfBoth) {
  ExpertScores into = OneLayer("a"), other = OneLayer("b");
  into.super_experts[0] = {1};
  other.super_experts[0] = {0};
  ASSERT_TRUE(JoinScores("b.json", other, into));
  EXPECT_EQ(into.co_selection[0][0], 10u);
  EXPECT_THAT(into.super_experts[0], ElementsAre(0, 1));
  EXPECT_TRUE(into.warnings.empty());
}

TEST(Import, PairsThatOnlyOneFileHasAreDroppedWithAWarning) {
  for (const bool first : {true, false}) {
    ExpertScores into = OneLayer("a"), other = OneLayer("b");
    (first ? into : other).co_selection.clear();
    ASSERT_TRUE(JoinScores("b.json", other, into));
    EXPECT_TRUE(into.co_selection.empty());
    EXPECT_THAT(into.warnings,
                ElementsAre("b.json: which experts were chosen together is dropped, as only some "
                            "files say it"));
  }
}

TEST(Import, RefusesALayerThatNoTokenReachedByName) {
  const Error error = ImportError(R"({"logical_count": [[1, 2], [0, 0]]})",
                                  ImportOptions{{{0, 2, 1}, {1, 2, 1}}, {}, true, ""});
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.message, "in: layer 1: expected an expert with a score above 0, found none");
}

TEST(Import, WarnsOfFewerSelectionsThanExperts) {
  const ExpertScores scores = ImportedBytes(R"({"logical_count": [[1, 0, 1, 0]]})");
  EXPECT_THAT(scores.warnings,
              ElementsAre("in: 2 selections in a layer for 4 experts: most look unused because "
                          "too little was read"));
  const ExpertScores tokens =
      ImportedBytes(R"({"0": {"total_tokens": 3, "expert_frequency": [3, 3, 0, 0]}})");
  EXPECT_THAT(tokens.warnings, ElementsAre("in: 3 tokens for 4 experts: most look unused because "
                                           "too little was read"));
  const ExpertScores one =
      ImportedBytes(R"({"0": {"total_tokens": 1, "expert_frequency": [1, 1, 0, 0]}})");
  EXPECT_THAT(one.warnings, ElementsAre("in: 1 token for 4 experts: most look unused because "
                                        "too little was read"));
}

TEST(Import, LeavesPairsOutUnlessRequested) {
  ImportOptions options = ForTiny();
  options.pairs = false;
  const ExpertScores without = Imported("profile.json", options);
  EXPECT_TRUE(without.co_selection.empty());
  EXPECT_EQ(without.sessions, Imported("profile.json", ForTiny()).sessions);
}

TEST(Import, ATableBecomesASessionNamedAfterItsFile) {
  const ExpertScores scores = Imported("imatrix.gguf", ForTiny());
  ASSERT_EQ(scores.sessions.size(), 1u);
  EXPECT_EQ(scores.sessions[0].name, "imatrix.gguf");
}

TEST(Import, RecognizesOnlyFilesOfProfileAsProfiles) {
  const std::vector<std::pair<const char*, const char*>> others = {
      {"imatrix.gguf", "imatrix"},
      {"scores.json", "moepack-scores"},
      {"reap.json", "reap"},
      {"mesh-analyzer.csv", "mesh-ranking"},
      {"sglang.json", "sglang"},
      {"route-trace.csv", "route-trace"},
      {"reap.safetensors", "reap-tensors"}};
  for (const auto& [name, format] : others) {
    const std::string path = StatisticsFixture(name);
    const auto read = ReadProfileScores(path, std::nullopt);
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().code, Code::kUnsupported);
    EXPECT_EQ(read.error().message,
              path + ": expected statistics of moepack profile, found " + format);
    EXPECT_THAT(read.error().hint, HasSubstr("`moepack statistics convert`"));
  }
  const auto counts = ReadProfileScores(StatisticsFixture("profile.json"), ScoreBasis::kCount);
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(SumOfScores(*counts), ProfiledCounts());
}

TEST(Import, ReportsDamagedStatisticsOfProfileAsDamaged) {
  const fixtures::TempDir dir;
  const std::string path = (dir / "s.json").string();
  ASSERT_TRUE(fixtures::WriteFile(path, R"({"format": "moepack-statistics", "version": 1)"));
  EXPECT_TRUE(CheckIsProfile(path));
  const auto cut = ReadProfileScores(path, std::nullopt);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Code::kCorrupt);
  ASSERT_TRUE(fixtures::WriteFile(path, "nothing of the kind"));
  EXPECT_TRUE(CheckIsProfile(path));
  EXPECT_EQ(ReadProfileScores(path, std::nullopt).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace moepack
