#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

class RefitCommand : public testing::Test {
 protected:
  RefitCommand() {
    const ToolRun planned = workspace_.Moepack("plan fixtures/tiny-moe --groups 2 -o plan.json");
    EXPECT_EQ(planned.status, 0) << planned.err;
  }
  ToolRun Refit(const std::string& rest) const {
    return workspace_.Moepack("refit fixtures/tiny-moe --plan plan.json " + rest);
  }
  Workspace workspace_;
};

constexpr const char* kFewTexts =
    "--text fixtures/texts/manual.md fixtures/texts/header.txt --context 64 --least-tokens 20 "
    "--steps ridge ";

TEST_F(RefitCommand, WritesAStoreAndADistributionWithTheSameTrunk) {
  const ToolRun run =
      Refit("--text fixtures/texts/header.txt --context 64 --least-tokens 20 --steps ridge -o out");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("layer 0, group 0: error "));
  EXPECT_THAT(run.err, HasSubstr("layer 2, group 1: error "));
  EXPECT_THAT(run.err, testing::Not(HasSubstr("taken from")));
  EXPECT_THAT(run.out, HasSubstr("layer  group  error before"));
  EXPECT_TRUE(std::filesystem::exists(workspace_ / "out.refit/refit.json"));
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --plan plan.json -o plain").status, 0);
  EXPECT_EQ(ReadFile(workspace_ / "out/trunk/trunk.safetensors"),
            ReadFile(workspace_ / "plain/trunk/trunk.safetensors"));
  EXPECT_NE(ReadFile(workspace_ / "out/groups/000/experts.safetensors"),
            ReadFile(workspace_ / "plain/groups/000/experts.safetensors"));
}

TEST_F(RefitCommand, ASecondRunFindsEverythingInTheStore) {
  const ToolRun first = Refit(std::string(kFewTexts) + "--store kept");
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("warning: few tokens: expected about"));
  EXPECT_THAT(first.err,
              HasSubstr("warning: one bucket: all calibration text is of no named bucket"));
  const std::string before = ReadFile(workspace_ / "kept/refit.json");
  const ToolRun again = Refit(std::string(kFewTexts) + "--store kept");
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("; done before"));
  EXPECT_EQ(ReadFile(workspace_ / "kept/refit.json"), before);
  const ToolRun other = Refit(std::string(kFewTexts) + "--lambda 0.5 --store kept");
  EXPECT_NE(other.status, 0);
}

TEST_F(RefitCommand, ADryRunPrintsItsCostAsJson) {
  const ToolRun run = Refit(std::string(kFewTexts) + "--dry-run --json --store kept");
  ASSERT_EQ(run.status, 0) << run.err;
  const auto needs = nlohmann::json::parse(run.out);
  EXPECT_EQ(needs["dry_run"], true);
  EXPECT_GT(needs["tokens"], 1000);
  EXPECT_GT(needs["tokens_needed"], needs["tokens"]);
  EXPECT_GT(needs["memory_bytes"], 100000);
  EXPECT_GT(needs["weight_bytes"], 1000000);
  EXPECT_EQ(needs["disk_bytes"], 0);
  EXPECT_EQ(needs["joint_ridge"], true);
  EXPECT_GT(needs["multiplications"], 1e6);
  EXPECT_GT(needs["seconds"], 0);
}

TEST_F(RefitCommand, ADryRunCountsOnlyTheGroupsThatItNames) {
  const auto needs = [&](const std::string& share) {
    return workspace_.Json("refit fixtures/tiny-moe --plan plan.json " + std::string(kFewTexts) +
                           share + "--dry-run --json --store kept");
  };
  const auto all = needs(""), one = needs("--only group:1 ");
  EXPECT_EQ(all["machines"], 2);
  EXPECT_EQ(one["machines"], 1);
  EXPECT_LT(one["multiplications"], 0.7 * all["multiplications"].get<double>());
  EXPECT_LT(one["weight_bytes"], all["weight_bytes"]);
}

TEST_F(RefitCommand, ADryRunShowsItsCostAndWritesNothing) {
  const ToolRun run = Refit(std::string(kFewTexts) + "--dry-run --store kept");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("of about 30,720 that are needed"));
  EXPECT_THAT(run.out, HasSubstr("ridge regression: of all experts at once"));
  EXPECT_THAT(run.out, HasSubstr("time: about "));
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "kept"));
}

TEST_F(RefitCommand, HeldOutTextThatIsCalibrationTextIsRefusedUnlessForced) {
  const std::string overlapping =
      std::string(kFewTexts) + "--held-out-text fixtures/texts/manual.md --dry-run --store kept";
  const ToolRun refused = Refit(overlapping);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("held-out session \"manual.md\": expected other text"));
  EXPECT_THAT(refused.err, HasSubstr("--force-overlap"));
  const ToolRun forced = Refit(overlapping + " --force-overlap");
  EXPECT_EQ(forced.status, 0) << forced.err;
  EXPECT_THAT(forced.err, HasSubstr("warning: overlap: held-out session \"manual.md\""));
}

TEST_F(RefitCommand, WrongStepsAndMissingPlansAreNamed) {
  const ToolRun step = Refit("--text fixtures/texts/manual.md --steps bake --store kept");
  EXPECT_EQ(step.status, 2);
  EXPECT_THAT(step.err, HasSubstr("steps: expected ridge, refill, router, tune, found \"bake\""));
  const ToolRun plan =
      workspace_.Moepack("refit fixtures/tiny-moe --text fixtures/texts/manual.md --store kept");
  EXPECT_EQ(plan.status, 2);
  EXPECT_THAT(plan.err, HasSubstr("--plan is required: fixtures/tiny-moe is not a distribution"));
  const ToolRun output = Refit("--text fixtures/texts/manual.md");
  EXPECT_EQ(output.status, 2);
  EXPECT_THAT(output.err, HasSubstr("-o or --store is required"));
}

// A distribution stands for its plan: experts come from the model.
TEST_F(RefitCommand, DistributionIsRefittedFromItsSource) {
  const ToolRun built = workspace_.Moepack(
      "build fixtures/tiny-moe --groups 2 --overlay-file fixtures/tiny-overlay.json --quantize "
      "Q8_0 -o dist --no-verify");
  ASSERT_EQ(built.status, 0) << built.err;
  const std::string few = std::string(kFewTexts) + "--most-tokens 300 ";
  const ToolRun run =
      workspace_.Moepack("refit dist --against fixtures/tiny-moe " + few + "-o by-dist");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("taken from the text: 2 of 2 sessions (2 in part), 300 of "));
  const auto record = nlohmann::json::parse(ReadFile(workspace_ / "by-dist.refit/refit.json"));
  const nlohmann::json& text = record["calibration"][0];
  EXPECT_EQ(text["taken"], (nlohmann::json{{"tokens", 150}, {"sessions", 1}, {"of_sessions", 1}}));
  EXPECT_EQ(text["sessions"].get<std::string>().size(), 16u);
  ASSERT_EQ(workspace_
                .Moepack("plan fixtures/tiny-moe --groups 2 --overlay-file "
                         "fixtures/tiny-overlay.json -o plan.json --force")
                .status,
            0);
  ASSERT_EQ(Refit(few + "-o by-plan").status, 0);
  for (const char* file :
       {".refit/refit.json", "/distribution.json", "/groups/001/experts.safetensors"})
    EXPECT_EQ(ReadFile(workspace_ / (std::string("by-dist") + file)),
              ReadFile(workspace_ / (std::string("by-plan") + file)))
        << file;
}

TEST_F(RefitCommand, WhatMakesNoSenseWithADistributionIsRefused) {
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o dist --no-verify").status, 0);
  const auto refused = [&](const std::string& arguments, int status, const std::string& message) {
    const ToolRun run = workspace_.Moepack("refit " + arguments + " --tokens 1,2 --store kept");
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_THAT(run.err, HasSubstr(message));
  };
  refused("dist", 2, "dist: --against is required: a refit changes the experts of the model");
  refused("dist --against fixtures/tiny-moe --plan plan.json", 2,
          "--plan cannot be used with a distribution: dist has its own");
  refused("fixtures/tiny-moe --plan plan.json --against fixtures/tiny-moe", 2,
          "--against has no effect: fixtures/tiny-moe is not a distribution");
  std::string other = ReadFile(workspace_ / "dist/distribution.json");
  const std::string key = "\"versions\": {\n    \"model\": \"";
  const size_t at = other.find(key);
  ASSERT_NE(at, std::string::npos);
  other.replace(at + key.size(), 16, "0123456789abcdef");
  WriteAll(workspace_ / "dist/distribution.json", other);
  refused("dist --against fixtures/tiny-moe", 6,
          "fixtures/tiny-moe: model version: expected 0123456789abcdef, of which dist was made");
  const ToolRun build = workspace_.Moepack("build fixtures/tiny-moe --plan dist -o other");
  EXPECT_EQ(build.status, 6);
  EXPECT_THAT(build.err, HasSubstr("model version: expected 0123456789abcdef, of which dist was"));
}

TEST_F(RefitCommand, PlanOfAnotherModelIsRefused) {
  std::string plan = ReadFile(workspace_ / "plan.json");
  const std::string key = "\"version\": \"";
  const size_t at = plan.find(key);
  ASSERT_NE(at, std::string::npos);
  plan.replace(at + key.size(), 16, "0123456789abcdef");
  WriteAll(workspace_ / "plan.json", plan);
  const ToolRun run = Refit(std::string(kFewTexts) + "--store kept");
  EXPECT_NE(run.status, 0);
  EXPECT_THAT(run.err, HasSubstr("plan.json"));
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "kept"));
}

TEST_F(RefitCommand, QuantizedSourceIsWarnedAbout) {
  ASSERT_EQ(workspace_.Moepack("quantize fixtures/tiny-moe --recipe Q8_0 -o q8.gguf").status, 0);
  ASSERT_EQ(workspace_.Moepack("plan q8.gguf --groups 2 -o q8.json").status, 0);
  const std::string dry = std::string(kFewTexts) + "--dry-run --store kept";
  const ToolRun run = workspace_.Moepack("refit q8.gguf --plan q8.json " + dry);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err,
              HasSubstr("warning: quantized source: experts are refitted to what the quantized "
                        "model does, and lose again when they are quantized once more"));
  EXPECT_THAT(Refit(dry).err, testing::Not(HasSubstr("quantized source")));
}

// The statistics say which group a session is for, so a group's own sessions weigh more.
TEST_F(RefitCommand, StatisticsTellWhichTextIsForWhichGroup) {
  const ToolRun profiled = workspace_.Moepack(
      "profile fixtures/tiny-moe --text fixtures/texts/calibration.jsonl -o s.json");
  ASSERT_EQ(profiled.status, 0) << profiled.err;
  const std::string text =
      "--text fixtures/texts/held-out.jsonl --most-tokens 1500 --context 64 --least-tokens 20 "
      "--steps ridge ";
  const ToolRun alike = Refit(text + "--store alike");
  ASSERT_EQ(alike.status, 0) << alike.err;
  EXPECT_THAT(ReadFile(workspace_ / "alike/refit.json"),
              HasSubstr("\"session_weights\": \"alike\""));
  const ToolRun run = Refit(text + "--statistics s.json -o out");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("placement: "));
  EXPECT_EQ(ReadFile(workspace_ / "out.refit/refit.json").find("\"alike\""), std::string::npos);
  EXPECT_NE(ReadFile(workspace_ / "out.refit/layer-000-group-000.safetensors"),
            ReadFile(workspace_ / "alike/layer-000-group-000.safetensors"));
  EXPECT_THAT(ReadFile(workspace_ / "out/distribution.json"), HasSubstr("\"rule\": \"table\""));
  // Changed weights give another refit.
  const ToolRun other = Refit(text + "--store out.refit");
  EXPECT_EQ(other.status, 6);
  EXPECT_THAT(other.err, HasSubstr("out.refit: parameter session_weights: expected alike, found "));
}

TEST_F(RefitCommand, StatisticsOfIdenticalGroupsHaveNoEffect) {
  ASSERT_EQ(workspace_
                .Moepack("profile fixtures/tiny-moe --text fixtures/texts/calibration.jsonl -o "
                         "s.json")
                .status,
            0);
  ASSERT_EQ(workspace_
                .Moepack("plan fixtures/tiny-moe --groups 2 --statistics s.json --partition same "
                         "-o plan.json --force")
                .status,
            0);
  const ToolRun run = Refit(std::string(kFewTexts) + "--statistics s.json --store kept");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("placement: none, because one group suits every session best"));
  // Groups with the same experts are refitted once and get the same values.
  std::string first = ReadFile(workspace_ / "kept/layer-000-group-000.safetensors"),
              second = ReadFile(workspace_ / "kept/layer-000-group-001.safetensors");
  ASSERT_EQ(first.size(), second.size());
  EXPECT_EQ(first.substr(first.size() / 2), second.substr(second.size() / 2));
}

TEST_F(RefitCommand, StoreOfOneExecutorIsNotContinuedByAnother) {
  const std::string few = std::string(kFewTexts) + "--most-tokens 300 --store kept";
  ASSERT_EQ(Refit(few).status, 0);
  const ToolRun other = Refit(few + " --executor vulkan");
  if (other.status == 7 || other.status == 4) GTEST_SKIP() << other.err;
  EXPECT_EQ(other.status, 6);
  EXPECT_THAT(other.err, HasSubstr("kept: parameter executor: expected vulkan, found none"));
}

TEST_F(RefitCommand, WhatIsRefusedLeavesNoStoreAndFailsInADryRunToo) {
  WriteAll(workspace_ / "empty.jsonl", "");
  const struct {
    const char* options;
    int status;
    const char* message;
  } kRefused[] = {
      {"--tokens 1,2,3", 2, "calibration text: expected at least 2 windows"},
      {"--text empty.jsonl", 2, "empty.jsonl: expected text, found none"},
      {"--text fixtures/texts/manual.md --top-k 9", 2, "--top-k: expected at most 8"},
      {"--text fixtures/texts/manual.md --scratch nowhere", 5,
       "nowhere: expected a directory, found none"},
      {"--text fixtures/texts/manual.md --lambda nan", 2,
       "--lambda: expected a number from 0 to 1e+06, found \"nan\""},
      {"--text fixtures/texts/manual.md --foreign-weight nan", 2,
       "--foreign-weight: expected a number from 0 to 1, found \"nan\""},
      {"--text fixtures/texts/manual.md --steps bake", 2, "--steps: expected ridge, refill"},
  };
  for (const auto& one : kRefused) {
    for (const char* how : {"", " --dry-run"}) {
      const ToolRun run = Refit(std::string(one.options) + " --store kept" + how);
      EXPECT_EQ(run.status, one.status) << one.options << how << run.err;
      EXPECT_THAT(run.err, HasSubstr(one.message)) << one.options << how;
      EXPECT_FALSE(std::filesystem::exists(workspace_ / "kept")) << one.options << how;
    }
  }
}

TEST_F(RefitCommand, AnOutputInsideItsInputIsRefused) {
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --plan plan.json -o plain").status, 0);
  for (const char* out : {"plain/inside", "plain"}) {
    const ToolRun run = workspace_.Moepack(
        std::string("refit plain --against fixtures/tiny-moe --force -o ") + out + " " + kFewTexts);
    EXPECT_EQ(run.status, 2) << out;
    EXPECT_THAT(run.err, HasSubstr("the input")) << out;
  }
  const ToolRun store = workspace_.Moepack(
      std::string("refit plain --against fixtures/tiny-moe --store plain/kept ") + kFewTexts);
  EXPECT_EQ(store.status, 2);
  EXPECT_THAT(store.err, HasSubstr("plain/kept lies inside the input"));
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "plain.refit"));
  EXPECT_EQ(workspace_.Moepack("verify plain").status, 0);
}

TEST_F(RefitCommand, ADirectoryOfOtherFilesIsNoStore) {
  std::filesystem::create_directory(workspace_ / "home");
  WriteAll(workspace_ / "home/notes", "mine");
  const ToolRun run = Refit(std::string(kFewTexts) + "--store home");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("home: expected a refit store or an empty directory, found "
                                 "\"notes\""));
  EXPECT_FALSE(std::filesystem::exists(workspace_ / "home/refit.json"));
}

TEST_F(RefitCommand, CountsOnlyTheTokensThatItTakes) {
  const ToolRun run =
      Refit("--text fixtures/texts/calibration.jsonl --most-tokens 600 --dry-run --json -o out");
  ASSERT_EQ(run.status, 0) << run.err;
  // Three buckets.
  EXPECT_LE(nlohmann::json::parse(run.out)["tokens"], 3 * 600);
}

TEST_F(RefitCommand, ALimitOfTokensSaysHowManyOfHowManySessionsItTakes) {
  std::string kinds;
  for (const char* kind : {"abc", "int", "the"}) {
    for (int i = 0; i < 20; ++i) {
      kinds += std::string("{\"session\": \"") + kind + std::to_string(i) +
               "\", \"bucket\": \"one\", \"text\": \"";
      for (int word = 0; word < 12; ++word) kinds += std::string(kind) + " ";
      kinds += "\"}\n";
    }
  }
  WriteAll(workspace_ / "kinds.jsonl", kinds);
  const std::string few = "--text kinds.jsonl --most-tokens 400 --context 64 --dry-run -o out";
  const auto needs = nlohmann::json::parse(Refit(few + " --json").out);
  ASSERT_EQ(needs["buckets"].size(), 1u);
  const nlohmann::json& bucket = needs["buckets"][0];
  EXPECT_EQ(bucket["of_sessions"], 60);
  EXPECT_EQ(bucket["in_part"], 0);
  EXPECT_GT(bucket["sessions"], 3);
  EXPECT_LE(bucket["tokens"], 400);
  EXPECT_GE(bucket["tokens"], 350);
  EXPECT_EQ(bucket["tokens"], needs["tokens"]);
  EXPECT_THAT(
      Refit(few).out,
      HasSubstr("taken from \"one\": " + std::to_string(bucket["sessions"].get<int>()) +
                " of 60 sessions, " + std::to_string(bucket["tokens"].get<int>()) + " of "));
}

}  // namespace
}  // namespace moepack::cli
