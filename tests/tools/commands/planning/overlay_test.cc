#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class OverlayCommand : public testing::Test {
 protected:
  void Build(const std::string& options = "") {
    Runs(
        "build fixtures/tiny-moe --groups 3 --overlay-file fixtures/tiny-overlay.json -o out "
        "--no-verify " +
        options);
  }
  ToolRun Runs(const std::string& arguments) {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, 0) << arguments << "\n" << run.out << run.err;
    return run;
  }
  ToolRun Next(const std::string& options = "") {
    return Runs("overlay out --overlay-file fixtures/tiny-overlay-2.json -o next " + options);
  }
  std::string Refusal(const std::string& arguments, int status = 2) {
    const std::string before = workspace_.Listing();
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, status) << arguments;
    EXPECT_EQ(workspace_.Listing(), before);
    return run.err;
  }
  Workspace workspace_;
};

TEST_F(OverlayCommand, ListsAddedAndRemovedExpertsAndWritesNothingElse) {
  for (const char* bundles : {"", "--quantize Q4_K_M"}) {
    SCOPED_TRACE(bundles);
    Build(bundles);
    const ToolRun run = Next();
    EXPECT_THAT(run.out, HasSubstr("overlay generalists-1 -> generalists-2\n"
                                   "  layer 1, experts +8 -7\n"));
    EXPECT_THAT(run.out, testing::ContainsRegex("\ntrunk/trunk[.a-z]+ +[0-9,]+  hardlink\n"));
    EXPECT_THAT(run.out,
                testing::ContainsRegex("\noverlays/generalists-2/experts[.a-z]+ +[0-9,]+  new\n"));
    Runs("verify next --against fixtures/tiny-moe");
    const ToolRun diff = Runs("diff out next");
    EXPECT_THAT(diff.out, HasSubstr("overlay  layer 1, experts +8 -7"));
    EXPECT_THAT(diff.out, Not(HasSubstr("groups/")));
    EXPECT_THAT(diff.out, Not(HasSubstr("trunk/")));
    for (const char* name : {"out", "next"}) fs::remove_all(workspace_ / name);
  }
}

TEST_F(OverlayCommand, EveryVersionAssemblesVerifiesAndGivesTheMaskedModel) {
  Build();
  Next();
  Runs("verify next");
  Runs("verify next --group 1");
  Runs("verify next --group 1 --overlay generalists-1");
  Runs("assemble next --group 1 -o node-2");
  Runs("assemble next --group 1 --overlay generalists-1 -o node-1");
  Runs("assemble next --group 1 --overlay none -o node-0");
  Runs("assemble out --group 1 -o node-was");
  for (const char* node : {"node-0", "node-1", "node-2"}) Runs(std::string("verify ") + node);
  const auto versions = [&](const std::string& node) {
    return nlohmann::json::parse(ReadFile(workspace_ / node / "moepack_node.json"))["versions"];
  };
  EXPECT_EQ(versions("node-1"), versions("node-was"));
  EXPECT_EQ(versions("node-2")["shard"], versions("node-1")["shard"]);
  EXPECT_NE(versions("node-2")["replica"], versions("node-1")["replica"]);
  EXPECT_EQ(versions("node-0")["replica"], "");
  EXPECT_THAT(Runs("check next --threads 1").out, HasSubstr("check passed: 9 nodes"));
  EXPECT_THAT(Runs("check next --threads 1 --overlay generalists-1").out,
              HasSubstr("check passed: 9 nodes"));
  EXPECT_THAT(Runs("run next --group 1 --overlay generalists-1 --tokens 5,6,7 -n 1").err,
              HasSubstr("overlay generalists-1 "));
  EXPECT_THAT(Refusal("run next --group 1 --overlay v9 --tokens 5 -n 1", 5),
              HasSubstr("overlay \"v9\": expected in the manifest, found only \"generalists-1\", "
                        "\"generalists-2\""));
  EXPECT_THAT(Refusal("verify next --overlay v9", 5), HasSubstr("overlay \"v9\": expected"));
  EXPECT_THAT(Refusal("verify node-1 --overlay v9"), HasSubstr("--overlay has no effect"));
}

TEST_F(OverlayCommand, PublishingSendsOnlyTheNewOverlay) {
  Build("--quantize Q8_0");
  Next();
  Runs("publish out layout:models:v1 --moving-tag live");
  const ToolRun published = Runs("publish next layout:models:v2 --moving-tag live");
  EXPECT_THAT(published.out, testing::ContainsRegex("\ngroups/001/experts.gguf +[0-9,]+  there\n"));
  Runs("pull layout:models:v2 --group 1 -o current");
  EXPECT_FALSE(fs::exists(workspace_ / "current/overlays/generalists-1"));
  Runs("verify current --group 1");
  Runs("pull layout:models:v2 --group 1 --overlay generalists-1 -o older --assemble node-1");
  EXPECT_FALSE(fs::exists(workspace_ / "older/overlays/generalists-2"));
  Runs("verify older --group 1 --overlay generalists-1");
  Runs("assemble out --group 1 -o node-was");
  EXPECT_EQ(ReadFile(workspace_ / "node-1/node-00003-of-00003.gguf"),
            ReadFile(workspace_ / "node-was/node-00003-of-00003.gguf"));
  EXPECT_THAT(Refusal("pull layout:models:v2 --group 1 --overlay v9 -o other"),
              HasSubstr("overlay: expected \"v9\", found \"generalists-1\", \"generalists-2\""));
}

TEST_F(OverlayCommand, ChoosesTheBestExpertsOfEveryLayerByStatistics) {
  Build();
  Runs("profile fixtures/tiny-moe --text README.md --context 64 -o s.json");
  const auto report = workspace_.Json("overlay out --statistics s.json -o next --json");
  EXPECT_EQ(report["overlay"]["version"], "generalists-2");
  EXPECT_EQ(report["overlay"]["parent"], "generalists-1");
  EXPECT_EQ(report["source_experts"], 0);
  EXPECT_THAT(report["versions"], ElementsAre("generalists-1", "generalists-2"));
  std::set<std::string> fresh;
  for (const auto& file : report["files"]) {
    if (file["new"] == true) fresh.insert(file["file"].get<std::string>());
  }
  EXPECT_THAT(fresh, ElementsAre("README.md", "distribution.json",
                                 "overlays/generalists-2/experts.safetensors"));
  Runs("verify next --against fixtures/tiny-moe");
  const auto sized = workspace_.Json(
      "overlay out --statistics s.json --size 3 --version big --keep 0 -o big --json");
  EXPECT_THAT(sized["dropped"], ElementsAre("generalists-1"));
  EXPECT_THAT(sized["versions"], ElementsAre("big"));
  Runs("verify big --against fixtures/tiny-moe");
}

TEST_F(OverlayCommand, StatisticsOfOtherToolsAreRefused) {
  Build();
  for (const auto& [file, format] :
       std::map<std::string, std::string>{{"imatrix.gguf", "imatrix"},
                                          {"scores.json", "moepack-scores"},
                                          {"mesh-headings.csv", "mesh-ranking"}}) {
    EXPECT_THAT(Refusal("overlay out --statistics fixtures/statistics/" + file + " -o next", 4),
                HasSubstr("error: fixtures/statistics/" + file +
                          ": expected statistics of moepack profile, found " + format + "\n"));
  }
}

TEST_F(OverlayCommand, WarnsOfStatisticsOfFewTokens) {
  Build();
  WriteAll(workspace_ / "ids", "1 2 3 4");
  Runs("profile fixtures/tiny-moe --tokens ids -o few.json");
  const ToolRun run = Runs("overlay out --statistics few.json -o next");
  EXPECT_THAT(run.err, HasSubstr("few.json: 3 tokens for 16 experts: most look unused "
                                 "because too little was read\n"));
}

// With a partition that replicates, experts that every group holds cannot be in the overlay.
TEST_F(OverlayCommand, ChoosesOnlyExpertsThatNotEveryGroupHolds) {
  const std::string statistics = " --statistics fixtures/statistics/profile.json ";
  Runs("build fixtures/tiny-moe --groups 2 --partition ranked --eligible 12 -o out --no-verify" +
       statistics);
  const ToolRun run = Runs("overlay out --size 9 -o next" + statistics);
  EXPECT_THAT(run.err, HasSubstr("note: layer 0: the overlay holds 8 and not 9 experts, because "
                                 "every group holds the other 8\n"));
  EXPECT_THAT(run.out, HasSubstr("  layer 0, experts +"));
  Runs("build fixtures/tiny-moe --groups 2 --partition same --eligible 16 -o all --no-verify" +
       statistics);
  EXPECT_THAT(Refusal("overlay all --size 1 -o other" + statistics),
              HasSubstr("error: all: overlay: expected experts that not every group holds, found "
                        "none in any layer\n"));
}

TEST_F(OverlayCommand, ADryRunWritesNothingAndGivesTheSameSizes) {
  Build();
  const std::string before = workspace_.Listing();
  const auto planned = workspace_.Json(
      "overlay out --overlay-file fixtures/tiny-overlay-2.json -o next --dry-run --json");
  EXPECT_EQ(workspace_.Listing(), before);
  const auto made =
      workspace_.Json("overlay out --overlay-file fixtures/tiny-overlay-2.json -o next --json");
  EXPECT_EQ(planned["bytes"], made["bytes"]);
  EXPECT_EQ(planned["new_bytes"], made["new_bytes"]);
}

TEST_F(OverlayCommand, RefusesOptionsThatContradictOrHaveNoEffect) {
  Build();
  EXPECT_THAT(Refusal("overlay out -o next"),
              HasSubstr("overlay: --overlay-file or --statistics is required"));
  const std::string file = "overlay out --overlay-file fixtures/tiny-overlay-2.json -o next ";
  EXPECT_THAT(Refusal(file + "--statistics s.json"),
              HasSubstr("--overlay-file and --statistics cannot be used together"));
  EXPECT_THAT(Refusal(file + "--size 3"), HasSubstr("--statistics"));
  EXPECT_THAT(Refusal(file + "--pre qwen2"), HasSubstr("--pre has no effect without --source"));
  EXPECT_THAT(Refusal(file + "--parent v0", 5), HasSubstr("overlay \"v0\": expected in the"));
  EXPECT_THAT(Refusal("overlay out --overlay-file fixtures/tiny-overlay.json -o next"),
              HasSubstr("overlay \"generalists-1\": expected a new version"));
  EXPECT_THAT(Refusal("overlay out --overlay-file fixtures/tiny-overlay-2.json -o out"),
              HasSubstr("out"));
}

// Plans and distributions of an older moepack are planned, written, verified and run as before.
TEST_F(OverlayCommand, DistributionsOfThePreviousFormatStayUnchanged) {
  const fs::path plan = MOEPACK_SOURCE_DIR "/fixtures/tiny-plan-1.0.json";
  const ToolRun made =
      Runs("shard-experts fixtures/tiny-moe --plan '" + plan.string() + "' -o out");
  // The moepack of 2026-11-22 gave the same but for tool.version.
  EXPECT_THAT(made.out,
              HasSubstr("distribution.json sha256:ed3d5598adba7c1378a844ae0cd28bf89196b730"
                        "cb78e0767c6098a1c93ad1e5\n"));
  Runs("verify out --against fixtures/tiny-moe");
  EXPECT_THAT(Runs("check out --threads 1").out, HasSubstr("check passed"));
  WriteAll(workspace_ / "uneven.json", R"({"version": "uneven", "layers": {"*": "5,14"}})");
  const ToolRun next = Runs("overlay out --overlay-file uneven.json -o next");
  EXPECT_THAT(next.out, HasSubstr("fill of group"));
  Runs("verify next --against fixtures/tiny-moe");
  Runs("assemble next --group 2 -o node");
  Runs("assemble next --group 2 --overlay generalists-1 -o node-was");
}

}  // namespace
}  // namespace moepack::cli
