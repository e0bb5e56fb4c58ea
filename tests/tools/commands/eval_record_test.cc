#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;

class EvalRecord : public ::testing::Test {
 protected:
  EvalRecord() {
    const ToolRun run = workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o out");
    EXPECT_EQ(run.status, 0) << run.err;
  }
  nlohmann::json Manifest() const {
    return nlohmann::json::parse(ReadFile(workspace_ / "out/distribution.json"));
  }
  Workspace workspace_;
  const std::string eval_ = "eval out --text fixtures/texts/header.txt --generate 0";
};

TEST_F(EvalRecord, TheDistributionRecordsWhatEvalMeasured) {
  const std::string before = ReadFile(workspace_ / "out/distribution.json");
  const nlohmann::json printed = workspace_.Json(eval_ + " --bucket c --record --json");
  const nlohmann::json measured = Manifest()["quality"]["measured"];
  EXPECT_EQ(measured, printed["quality"]);
  EXPECT_EQ(measured["groups"].size(), 2u);
  EXPECT_EQ(measured["groups"][1]["buckets"][0]["bucket"], "c");
  EXPECT_NEAR(measured["groups"][1]["all"]["split"]["kld"]["mean"],
              printed["groups"][1]["split"]["kld"]["mean"], 1e-5);
  EXPECT_NEAR(measured["best"]["all"]["nats"]["mean"],
              -printed["best"]["log_probability"].get<double>(), 1e-4);
  EXPECT_EQ(printed["versions"], Manifest()["versions"]);
  EXPECT_THAT(ReadFile(workspace_ / "out/README.md"), HasSubstr("| node 1, c |"));
  EXPECT_EQ(workspace_.Moepack("verify out").status, 0);

  const std::string after = ReadFile(workspace_ / "out/distribution.json");
  EXPECT_NE(after, before);
  const ToolRun again = workspace_.Moepack(eval_ + " --bucket c --record");
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.err, HasSubstr("this result is recorded in out/distribution.json already"));
  EXPECT_EQ(ReadFile(workspace_ / "out/distribution.json"), after);
}

TEST_F(EvalRecord, KeepsAnEditedReadmeAndSaysThatASignatureIsStale) {
  ASSERT_EQ(workspace_.Moepack("keygen -o release").status, 0);
  ASSERT_EQ(workspace_.Moepack("sign out --oms --key release.key").status, 0);
  const std::string card = ReadFile(workspace_ / "out/README.md");
  WriteAll(workspace_ / "out/README.md", card + "\nOur notes.\n");
  ToolRun run = workspace_.Moepack(eval_ + " --record");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("out/distribution.json and README.md; sha256:"));
  EXPECT_THAT(run.err, HasSubstr("; your own text in README.md is kept\n"));
  EXPECT_THAT(run.err,
              HasSubstr("out/model.sig: it signs the files as they were before; sign them again "
                        "with `moepack sign out --oms --key KEY.key --force`"));
  EXPECT_THAT(ReadFile(workspace_ / "out/README.md"), HasSubstr("\nOur notes.\n"));
  EXPECT_THAT(ReadFile(workspace_ / "out/README.md"), HasSubstr("| each session on its node |"));
  WriteAll(workspace_ / "out/README.md", "# Ours\n");
  run = workspace_.Moepack(eval_ + " --bucket c --record");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("recorded in out/distribution.json; sha256:"));
  EXPECT_THAT(run.err, HasSubstr("out/README.md: it was edited and stays as it is"));
  EXPECT_EQ(ReadFile(workspace_ / "out/README.md"), "# Ours\n");
}

TEST_F(EvalRecord, WritesNothingWithoutTheFlag) {
  const std::string before = ReadFile(workspace_ / "out/distribution.json");
  EXPECT_EQ(workspace_.Moepack(eval_).status, 0);
  EXPECT_EQ(ReadFile(workspace_ / "out/distribution.json"), before);
}

TEST_F(EvalRecord, RecordsFiguresEvenIfAGateFails) {
  const ToolRun run = workspace_.Moepack(eval_ + " --record --gate 'kld<=0.000001'");
  EXPECT_EQ(run.status, 6);
  EXPECT_TRUE(Manifest()["quality"].contains("measured"));
}

TEST_F(EvalRecord, RecordsOnlyForADistributionAsNodesGetIt) {
  ToolRun run = workspace_.Moepack(
      "eval fixtures/tiny-moe --text fixtures/texts/header.txt --generate 0 --record");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err,
              HasSubstr("--record needs a distribution, and \"fixtures/tiny-moe\" is not one"));
  run = workspace_.Moepack(eval_ + " --record --no-overlay");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("it records the distribution as nodes get it"));
}

TEST_F(EvalRecord, RefusesADirectoryThatWasPulledWithAnOlderOverlay) {
  for (const char* command :
       {"build fixtures/tiny-moe --groups 2 --overlay-file fixtures/tiny-overlay.json -o one",
        "overlay one --overlay-file fixtures/tiny-overlay-2.json -o two"}) {
    const ToolRun run = workspace_.Moepack(command);
    ASSERT_EQ(run.status, 0) << run.err;
  }
  WriteAll(workspace_ / "two/pulled.json",
           R"({"version": 1, "reference": "layout:models:v1", "digest": "sha256:)" +
               std::string(64, 'a') + R"(", "groups": [0, 1], "overlay": "generalists-1"})");
  const ToolRun run =
      workspace_.Moepack("eval two --text fixtures/texts/header.txt --generate 0 --record");
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("--record needs the current overlay"));
  EXPECT_THAT(run.err, HasSubstr("overlay \"generalists-1\" was pulled"));
}

TEST_F(EvalRecord, DiffShowsRecordedFigures) {
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o fresh").status, 0);
  ASSERT_EQ(workspace_.Moepack(eval_ + " --record").status, 0);
  const ToolRun changed = workspace_.Moepack("diff fresh out");
  EXPECT_THAT(changed.out, HasSubstr("quality"));
}

TEST_F(EvalRecord, TextThatThePlanWasMadeFromIsNotRecordedAsHeldOut) {
  WriteAll(workspace_ / "plan.jsonl",
           R"({"session": "a", "text": "static int compare(const void *a, const void *b);"}
{"session": "b", "text": "You may copy and distribute verbatim copies of it."}
)");
  WriteAll(workspace_ / "other.jsonl",
           R"({"session": "x", "text": "You may copy and distribute verbatim copies of it."}
{"session": "y", "text": "The router of a layer picks two of sixteen experts."}
)");
  ASSERT_EQ(workspace_
                .Moepack("profile fixtures/tiny-moe --text plan.jsonl fixtures/texts/manual.md -o "
                         "s.json")
                .status,
            0);
  const ToolRun built = workspace_.Moepack(
      "build fixtures/tiny-moe --groups 2 --statistics s.json --eligible 12 --no-verify -o "
      "planned");
  ASSERT_EQ(built.status, 0) << built.err;
  const std::string eval = "eval planned --against fixtures/tiny-moe --generate 0 --text ";
  const ToolRun run = workspace_.Moepack(eval + "other.jsonl --record");
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string sentence = "The plan was made from 1 of the 2 sessions, which is not held out.";
  EXPECT_THAT(run.err, HasSubstr("warning: " + sentence));
  EXPECT_THAT(run.out, HasSubstr(sentence));
  EXPECT_THAT(ReadFile(workspace_ / "planned/README.md"), HasSubstr(" of text. " + sentence));
  const auto manifest = nlohmann::json::parse(ReadFile(workspace_ / "planned/distribution.json"));
  EXPECT_EQ(manifest["quality"]["measured"]["made_from"], (nlohmann::json{{"plan", 1}}));
  EXPECT_EQ(workspace_.Json(eval + "other.jsonl --json")["quality"]["made_from"]["plan"], 1);
  EXPECT_EQ(
      workspace_.Json(eval + "fixtures/texts/header.txt --json")["quality"]["made_from"]["plan"],
      0);
  EXPECT_EQ(workspace_.Moepack("verify planned").status, 0);
}

}  // namespace
}  // namespace moepack::cli
