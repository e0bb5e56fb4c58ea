// refit --only and --task, and the join of their parts.
#include <gmock/gmock.h>

#include <map>
#include <sstream>

#include "tests/tools/child_process.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::map<std::string, std::string> FilesIn(const fs::path& root) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), root).string()] = ReadFile(entry.path());
  }
  return files;
}

constexpr const char* kFewTokens =
    "--text fixtures/texts/manual.md fixtures/texts/header.txt --context 64 "
    "--least-tokens 20 --steps router ";

class RefitParts : public testing::Test {
 protected:
  void Plan(const std::string& options) {
    const ToolRun planned =
        workspace_.Moepack("plan fixtures/tiny-moe " + options + " -o plan.json");
    ASSERT_EQ(planned.status, 0) << planned.err;
  }
  ToolRun Refit(const std::string& rest) const {
    return workspace_.Moepack("refit fixtures/tiny-moe --plan plan.json " +
                              std::string(kFewTokens) + rest);
  }
  void MustRefit(const std::string& rest) const {
    const ToolRun run = Refit(rest);
    ASSERT_EQ(run.status, 0) << rest << "\n" << run.err;
  }
  void ExpectSame(const char* one, const char* other) const {
    const auto expected = FilesIn(workspace_ / one), found = FilesIn(workspace_ / other);
    EXPECT_EQ(expected.size(), found.size());
    for (const auto& [name, bytes] : expected) {
      const auto same = found.find(name);
      EXPECT_TRUE(same != found.end() && same->second == bytes) << name;
    }
  }
  // A file with what was accepted, below a directory.
  std::string LayerOf(const char* directory) const {
    for (const auto& [name, bytes] : FilesIn(workspace_ / directory)) {
      if (fs::path(name).filename().string().starts_with("layer-"))
        return (fs::path(directory) / name).string();
    }
    ADD_FAILURE() << "nothing was accepted in " << directory;
    return "";
  }
  // Replaces text in a file.
  void Change(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = ReadFile(workspace_ / file);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in\n" << text;
    WriteAll(workspace_ / file, text.replace(at, from.size(), to));
  }
  Workspace workspace_;
};

TEST_F(RefitParts, TasksMakeTheStoreAndTheDistributionOfOneRun) {
  Plan("--groups 3 --overlay-file fixtures/tiny-overlay.json");
  MustRefit("-o whole");
  MustRefit("--task 1/2 --threads 1 -o out");
  const ToolRun first = Refit("--task 0/2 --threads 2 -o out");
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("layer 0, group 2: error "));
  EXPECT_THAT(first.err, testing::Not(HasSubstr("group 1: error ")));
  EXPECT_THAT(first.out, HasSubstr("when all tasks are done:\n  moepack join out.tasks -o out\n"));
  const ToolRun again = Refit("--task 0/2 -o out");
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("nothing to do: out.tasks/00000-of-00002 is there already\n"));
  const ToolRun dry = workspace_.Moepack("join out.tasks -o out --dry-run");
  EXPECT_THAT(dry.out, HasSubstr("would write "));
  EXPECT_FALSE(fs::exists(workspace_ / "out"));
  const ToolRun join = workspace_.Moepack("join out.tasks -o out");
  ASSERT_EQ(join.status, 0) << join.err;
  EXPECT_THAT(join.out, HasSubstr(" of 2 parts to the refit store out.refit\nwrote "));
  EXPECT_THAT(join.out, HasSubstr("; all parts are there\ndistribution.json sha256:"));
  LayerOf("whole.refit");
  ExpectSame("whole.refit", "out.refit");
  ExpectSame("whole", "out");
  const ToolRun proof = workspace_.Moepack(
      "verify out --complete --against fixtures/tiny-moe --refit-store out.refit");
  EXPECT_EQ(proof.status, 0) << proof.err;
  // A join that was killed behind the store goes on there.
  fs::remove_all(workspace_ / "out");
  const auto resumed = workspace_.Json("join out.tasks -o out --json");
  EXPECT_EQ(resumed["refit"]["was_there"], true);
  EXPECT_EQ(resumed["refit"]["parts"], 2);
  EXPECT_EQ(resumed["complete"], true);
  ExpectSame("whole", "out");
}

// Groups with the same experts are refitted once, wherever that is, and the trunk counts once.
TEST_F(RefitParts, StoresOfGroupsMakeTheStoreOfOneRun) {
  const ToolRun profiled =
      workspace_.Moepack("profile fixtures/tiny-moe --text fixtures/texts/manual.md -o s.json");
  ASSERT_EQ(profiled.status, 0) << profiled.err;
  Plan("--groups 3 --partition same --eligible 6 --statistics s.json");
  MustRefit("--store whole");
  for (const char* part : {"--only group:1 --store one", "--only group:0,group:2 --store others"})
    MustRefit(part);
  // What a part is quantized with has the trunk, too, wherever that counts when parts are joined.
  const auto weighs_trunk = [&](const char* matrix) {
    return ReadFile(workspace_ / matrix).find("blk.0.attn_q.weight") != std::string::npos;
  };
  EXPECT_TRUE(weighs_trunk("one/imatrix.gguf"));
  EXPECT_FALSE(weighs_trunk("one/imatrix-group-001.gguf"));
  MustRefit("--only group:0,group:1,group:2 --store every");
  EXPECT_TRUE(ReadFile(workspace_ / "every/imatrix.gguf") ==
              ReadFile(workspace_ / "whole/imatrix.gguf"));
  const ToolRun join = workspace_.Moepack("join one others -o joined");
  ASSERT_EQ(join.status, 0) << join.err;
  ExpectSame("whole", "joined");
  MustRefit("--task 0/2 --store shared");
  const ToolRun none = Refit("--task 1/2 --store shared");
  ASSERT_EQ(none.status, 0) << none.err;
  EXPECT_THAT(none.out, HasSubstr("nothing to do: there are fewer different groups than tasks"));
  ASSERT_EQ(workspace_.Moepack("join shared.tasks -o shared").status, 0);
  ExpectSame("whole", "shared");
}

TEST_F(RefitParts, DistributionsOfGroupsJoinToo) {
  Plan("--groups 2");
  MustRefit("-o whole");
  MustRefit("--only trunk,group:0 -o zero");
  MustRefit("--only group:1,assets -o one");
  ASSERT_EQ(workspace_.Moepack("join one zero -o out").status, 0);
  ExpectSame("whole", "out");
}

TEST_F(RefitParts, WhatDoesNotFitTogetherIsNamed) {
  Plan("--groups 2");
  MustRefit("--task 0/2 --store out");
  MustRefit("--task 1/2 --store out");
  const auto refused = [&](const std::string& arguments, int status, const std::string& message) {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_THAT(run.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(workspace_ / "out"));
  };
  const std::string first = "out.tasks/00000-of-00002.refit",
                    second = "out.tasks/00001-of-00002.refit";
  refused("join " + first + " -o out", 5,
          "groups of all parts: expected 0-1, found 0: 1 is missing");
  refused("join " + first + " fixtures -o out", 2, "fixtures: expected parts of a refit");
  const std::string part = ReadFile(workspace_ / (second + "/part.json"));
  Change(second + "/part.json", "\"moepack\": \"", "\"moepack\": \"9.");
  refused("join out.tasks -o out", 6, second + ": moepack: expected ");
  WriteAll(workspace_ / (second + "/part.json"), part);
  Change(second + "/part.json", "\"instructions\": \"", "\"instructions\": \"other than ");
  refused("join out.tasks -o out", 6, second + ": instructions: expected ");
  // Nor does a machine with other instructions go on with what this one began.
  fs::remove(workspace_ / (second + "/imatrix-group-001.gguf"));
  const ToolRun resumed = Refit("--task 1/2 --store out");
  EXPECT_EQ(resumed.status, 6);
  EXPECT_THAT(resumed.err, HasSubstr("instructions: expected "));
  WriteAll(workspace_ / (second + "/part.json"), part);
  refused("join out.tasks -o out", 5, second + ": expected a part that is finished");
  MustRefit("--task 1/2 --store out");
  const std::string record = ReadFile(workspace_ / (second + "/refit.json"));
  Change(second + "/refit.json", "\"context\": \"64\"", "\"context\": \"65\"");
  refused("join out.tasks -o out", 6, second + ": parameter context: expected 64, found 65");
  WriteAll(workspace_ / (second + "/refit.json"), record);
  const std::string layer = LayerOf("out.tasks");
  std::string bytes = ReadFile(workspace_ / layer);
  ASSERT_FALSE(bytes.empty()) << layer;
  bytes.back() ^= 1;
  WriteAll(workspace_ / layer, bytes);
  refused("join out.tasks -o out", 6, fs::path(layer).filename().string());
}

// It is gone in the middle of its work, with its disk.
TEST_F(RefitParts, AMachineThatIsLostIsReplaced) {
  Plan("--groups 2");
  MustRefit("--store whole");
  MustRefit("--task 0/2 --threads 2 --store out");
  const fs::path part = workspace_ / "out.tasks/00001-of-00002.refit";
  std::istringstream words("refit fixtures/tiny-moe --plan plan.json " + std::string(kFewTokens) +
                           "--task 1/2 --threads 1 --store out");
  ChildProcess lost(workspace_.path(), {std::istream_iterator<std::string>(words), {}});
  const auto has_layer = [&] {
    return ReadFile(part / "refit.json").find("\"layer\":") != std::string::npos;
  };
  for (int i = 0; i < 12'000 && !has_layer(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  lost.Kill(SIGKILL);
  EXPECT_EQ(lost.Wait().signal, SIGKILL);
  const ToolRun begun = workspace_.Moepack("join out.tasks -o out");
  EXPECT_EQ(begun.status, 5);
  EXPECT_THAT(begun.err, HasSubstr("00001-of-00002.refit: expected a part that is finished"));
  fs::remove_all(part);
  const ToolRun absent = workspace_.Moepack("join out.tasks -o out");
  EXPECT_EQ(absent.status, 5);
  EXPECT_THAT(absent.err, HasSubstr("expected 0-1, found 0: 1 is missing"));
  MustRefit("--task 1/2 --threads 2 --store out");
  ASSERT_EQ(workspace_.Moepack("join out.tasks -o out").status, 0);
  ExpectSame("whole", "out");
}

TEST_F(RefitParts, WhatMakesNoSenseIsRefused) {
  Plan("--groups 2");
  const auto refused = [&](const std::string& rest, int status, const std::string& message) {
    const ToolRun run = Refit(rest);
    EXPECT_EQ(run.status, status) << rest << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(message)) << rest;
    EXPECT_FALSE(fs::exists(workspace_ / "kept")) << rest;
  };
  refused("--only trunk --store kept", 2, "--only: expected groups, as no distribution is written");
  refused("--only trunk -o kept", 2, "--only: expected a group, found \"trunk\"");
  refused("--only group:2 --store kept", 2,
          "--only: expected trunk, overlay, assets, remainder or "
          "group:0 to group:1, found \"group:2\"");
  refused("--only group:1 --task 0/2 --store kept", 2, "--task");
  refused("--task 0/2 --store kept -o out", 2, "--store beside -o cannot be used in a task");
  refused("--task 2/2 --store kept", 2, "--task: expected a task from 0 to 1 of 2, found 2");
  MustRefit("--store whole --only group:0");
  const ToolRun other = Refit("--store whole");
  EXPECT_EQ(other.status, 6);
  EXPECT_THAT(other.err, HasSubstr("whole: refit: expected all groups, found group 0 of 2"));
}

TEST_F(RefitParts, ADryRunSaysWhatOneOfTheMachinesTakes) {
  Plan("--groups 4");
  const ToolRun run = Refit("--dry-run --task 1/2 --store kept");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(" on this machine; about "));
  EXPECT_THAT(run.out, HasSubstr(" on 2 like it (--task)\n"));
  EXPECT_FALSE(fs::exists(workspace_ / "kept.tasks"));
  const ToolRun all = Refit("--dry-run --store kept --json");
  ASSERT_EQ(all.status, 0) << all.err;
  const auto needs = nlohmann::json::parse(all.out);
  EXPECT_EQ(needs["machines"], 4);
  EXPECT_LT(needs["seconds_of_one"].get<double>(), needs["seconds"].get<double>());
}

}  // namespace
}  // namespace moepack::cli
