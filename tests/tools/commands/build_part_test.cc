// A node that is built from the refit of its own groups, while others are refitted elsewhere.
#include <gmock/gmock.h>

#include <map>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPartTexts =
    "--text fixtures/texts/manual.md fixtures/texts/header.txt --context 64 ";
constexpr const char* kPartCalibration =
    "--calibrate fixtures/texts/manual.md --calibrate-most-tokens 400 --calibrate-context 64 "
    "--calibrate-least-tokens 8 ";

// Two groups: the stores `zero` and `one` have the refit of one each, and `all` that of both.
class BuildPart : public testing::Test {
 protected:
  BuildPart() {
    static MadeOnce made("plan fixtures/tiny-moe --groups 2 -o plan.json" +
                             Then(RefitOf("group:0") + "--store zero") +
                             Then(RefitOf("group:1") + "--store one") +
                             Then("join zero one -o all"),
                         {"plan.json", "zero", "one", "all"});
    made.CopyInto(workspace_);
  }
  static std::string Then(const std::string& arguments) {
    return " && '" MOEPACK_BINARY "' " + arguments + " >/dev/null 2>&1";
  }
  static std::string RefitOf(const std::string& parts) {
    return "refit fixtures/tiny-moe --plan plan.json --only " + parts + " " + kPartTexts +
           "--least-tokens 20 --steps router ";
  }
  ToolRun Build(const std::string& rest) const {
    return workspace_.Moepack("build fixtures/tiny-moe --plan plan.json " + rest);
  }
  // Returns what was said on stderr.
  std::string MustBuild(const std::string& rest) const {
    const ToolRun run = Build(rest);
    EXPECT_EQ(run.status, 0) << rest << "\n" << run.err << run.out;
    return run.err;
  }
  ToolRun MustRun(const std::string& arguments) const {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, 0) << arguments << "\n" << run.err << run.out;
    return run;
  }
  std::map<std::string, std::string> FilesOf(const std::string& directory) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(workspace_ / directory))
      if (entry.is_regular_file()) files[entry.path().string()] = ReadFile(entry.path());
    return files;
  }
  void ExpectSame(const std::string& one, const std::string& other) const {
    const std::string from = (workspace_ / one).string(), to = (workspace_ / other).string();
    const auto found = FilesOf(other);
    size_t compared = 0;
    for (const auto& [name, bytes] : FilesOf(one)) {
      const auto same = found.find(to + name.substr(from.size()));
      EXPECT_TRUE(same != found.end() && same->second == bytes) << name;
      ++compared;
    }
    EXPECT_EQ(compared, found.size());
    EXPECT_GT(compared, 0u);
  }
  // Of a command that must change nothing.
  void ExpectRefused(const std::string& arguments, int status, const std::string& message,
                     const std::string& hint) const {
    const std::string before = workspace_.Listing();
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, status) << arguments << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(message)) << arguments;
    EXPECT_THAT(run.err, HasSubstr(hint)) << arguments;
    EXPECT_EQ(workspace_.Listing(), before) << arguments;
  }
  Workspace workspace_;
};

TEST_F(BuildPart, MakesANodeThatIsProvedAndRuns) {
  const std::string said =
      MustBuild("--only trunk,assets,group:0 --quantize Q4_K_M --refit-store zero --prove -o own");
  EXPECT_THAT(said, HasSubstr("zero/imatrix.gguf has the inputs of group 0 of 2: what it weighs "
                              "cannot be joined"));
  const auto manifest = nlohmann::json::parse(ReadFile(workspace_ / "own/distribution.json"));
  EXPECT_EQ(manifest["refit"], nlohmann::json::parse(ReadFile(workspace_ / "zero/refit.json")));
  EXPECT_EQ(manifest["versions"]["refit"].get<std::string>().size(), 16u);
  EXPECT_TRUE(manifest["tool"].contains("imatrix"));
  EXPECT_EQ(manifest["complete"], false);
  const std::string verify = "verify own --against fixtures/tiny-moe --refit-store ";
  EXPECT_THAT(MustRun(verify + "zero --imatrix zero/imatrix.gguf").out,
              HasSubstr(" bytes, compared with the refit store"));
  EXPECT_EQ(workspace_.Moepack(verify + "all --imatrix zero/imatrix.gguf").status, 6);
  MustRun("assemble own --group 0 -o node");
  EXPECT_THAT(ReadFile(workspace_ / "node/moepack_node.json"),
              HasSubstr(manifest["versions"]["refit"].get<std::string>()));
  const std::string run = " --threads 1 --prompt 'int main(' -n 4";
  EXPECT_EQ(MustRun("run node" + run).out, MustRun("run own --group 0" + run).out);
  EXPECT_THAT(MustRun("check own --group 0 --threads 1").out, HasSubstr("check passed: "));
}

TEST_F(BuildPart, AGroupThatThePartLacksIsRefusedBeforeAnythingIsWritten) {
  const char* const hint =
      "hint: with --only group:0 this store is enough; `moepack join` makes one store of all parts";
  for (const char* command : {"build", "shard-experts"}) {
    const std::string run =
        std::string(command) + " fixtures/tiny-moe --plan plan.json -o out --refit-store zero ";
    const auto refused = [&](const char* rest, const char* groups) {
      ExpectRefused(run + rest, 2,
                    "zero: refit: expected " + std::string(groups) +
                        ", which this run writes, found group 0 of 2",
                    hint);
    };
    refused("", "groups 0-1");
    refused("--only trunk,group:1", "group 1");
    refused("--quantize Q4_K_M --only group:0,group:1", "groups 0-1");
    refused("--task 0/2", "groups 0-1");
    refused("--dry-run", "groups 0-1");
  }
}

TEST_F(BuildPart, ARefitThatWasStoppedIsNotEnough) {
  auto record = nlohmann::ordered_json::parse(ReadFile(workspace_ / "zero/refit.json"));
  record["layers"].erase(record["layers"].size() - 1);
  WriteAll(workspace_ / "zero/refit.json", record.dump());
  ExpectRefused("build fixtures/tiny-moe --plan plan.json --only group:0 --refit-store zero -o out",
                3, "zero/refit.json: layer 2, group 0: expected what became of it, found none",
                "run the same command again");
}

TEST_F(BuildPart, PartsAreJoinedToWhatIsBuiltFromTheJoinedStore) {
  for (const char* types : {"", "--quantize Q4_K_M --no-refit-imatrix ",
                            "--quantize Q4_K_M --imatrix all/imatrix.gguf "}) {
    for (const char* earlier : {"a", "b", "whole", "joined"}) fs::remove_all(workspace_ / earlier);
    MustBuild(std::string("--only trunk,group:0 --refit-store zero -o a ") + types);
    MustBuild(std::string("--only group:1,assets --refit-store one -o b ") + types);
    MustBuild(std::string("--refit-store all -o whole ") + types);
    MustRun("join b a -o joined");
    ExpectSame("whole", "joined");
  }
  MustRun(
      "verify joined --complete --against fixtures/tiny-moe --refit-store all --imatrix "
      "all/imatrix.gguf");
}

TEST_F(BuildPart, PartsThatWereWeighedByTheirOwnRefitsAreNotJoined) {
  const std::string types = "--quantize Q4_K_M ";
  MustBuild(types + "--only trunk,group:0 --refit-store zero -o a");
  MustBuild(types + "--only group:1,assets --refit-store one -o b");
  ExpectRefused("join a b -o out", 6, "b/distribution.json: tool.imatrix.sha256: expected ",
                "build both from the store that `moepack join` makes of all parts, or with "
                "--no-refit-imatrix, or with the same --imatrix");
  MustBuild(types + "--only group:1,assets --refit-store all -o c");
  ExpectRefused("join a c -o out", 6, "c/distribution.json: versions.refit: expected ",
                "`moepack join` makes one store of all parts, for --refit-store");
}

TEST_F(BuildPart, PartsAreAddedToWhatWasMadeFromTheSameStore) {
  const std::string shard = "shard-experts fixtures/tiny-moe --plan plan.json ";
  MustRun(shard + "--refit-store zero --only trunk,assets -o own");
  MustRun(shard + "--refit-store zero --only group:0 -o own");
  MustRun(shard + "--refit-store zero --only trunk,assets,group:0 -o once");
  ExpectSame("once", "own");
  ExpectRefused(shard + "--refit-store one --only group:1 -o own", 2,
                "own: versions of the distribution there: expected ",
                "what is made from parts of a refit goes to directories of its own");
}

TEST_F(BuildPart, TasksShareTheWorkOfANode) {
  const std::string node = "--only trunk,assets,group:1 --quantize Q4_K_M --refit-store one ";
  MustBuild(node + "-o whole");
  for (const char* task : {"0/2", "1/2"}) MustBuild(node + "-o own --task " + task);
  MustRun("join own.tasks -o own");
  ExpectSame("whole", "own");
}

TEST_F(BuildPart, ALayerOfItsRefitIsComputedAgain) {
  MustBuild("--only trunk,assets,group:1 --refit-store one --no-verify -o own");
  const ToolRun run =
      MustRun(std::string("verify own --against fixtures/tiny-moe --refit-store one --redo 1 ") +
              "--text fixtures/texts/manual.md fixtures/texts/header.txt");
  EXPECT_THAT(run.out, HasSubstr("note: refit-redo: layer 1: 1 group, "));
  EXPECT_THAT(run.out, HasSubstr(" values: the same bits\n"));
}

// A part that is not of the plan is refused, before anything is computed with it.
TEST_F(BuildPart, AVerifierRefusesAPartOfAnotherNumberOfGroups) {
  MustBuild("--only trunk,assets,group:1 --refit-store one --no-verify -o own");
  std::string part = ReadFile(workspace_ / "one/part.json");
  const size_t twins = part.find("[0, 1]");
  ASSERT_NE(twins, std::string::npos) << part;
  WriteAll(workspace_ / "one/part.json", part.replace(twins, 6, "[0, 1, 2]"));
  ExpectRefused("verify own --against fixtures/tiny-moe --refit-store one", 3,
                "one/part.json: twins: expected 2, as own/distribution.json has groups, found 3",
                "");
}

// Its groups are calibrated for their own nodes, and no others.
TEST_F(BuildPart, IsCalibratedToo) {
  const std::string build = std::string("--quantize Q4_K --no-verify ") + kPartCalibration;
  const std::string said =
      MustBuild(build + "--only trunk,assets,group:1 --refit-store one -o one.q4");
  EXPECT_THAT(said, testing::ContainsRegex("group 1, layer 0: [0-9]+ of "));
  EXPECT_THAT(said, Not(testing::ContainsRegex("group 0, layer 0: [0-9]+ of ")));
  MustRun(
      "verify one.q4 --against fixtures/tiny-moe --imatrix one/imatrix.gguf --refit-store one "
      "--calibrated-store one.q4.calibrated");
  EXPECT_THAT(MustRun("check one.q4 --group 1 --threads 1").out, HasSubstr("check passed: "));
  MustBuild(build + "--only group:0 --refit-store zero --calibrated-store zero.calibrated -o z.q4");
  ExpectRefused("join one.q4 z.q4 -o out", 6, "z.q4/distribution.json: calibrated.",
                "build both from the store that `moepack join` makes of all parts");
  const ToolRun dry = Build(build + "--only group:1 --refit-store one -o dry --dry-run");
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr(" through the model and 1 group; "));
}

}  // namespace
}  // namespace moepack::cli
