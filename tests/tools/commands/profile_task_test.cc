// profile --task and the join of its statistics.
#include "tools/commands/profile_task.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/tools/child_process.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kProfile =
    "profile fixtures/tiny-moe --text fixtures/texts/held-out.jsonl fixtures/texts/manual.md ";

class ProfileTasks : public testing::Test {
 protected:
  ToolRun Profile(const std::string& rest) const { return workspace_.Moepack(kProfile + rest); }
  Workspace workspace_;
};

TEST(SessionShares, AreRunsOfAboutTheSameNumberOfTokens) {
  std::vector<TokenSession> sessions;
  for (const size_t tokens : {10, 10, 30, 5, 5, 20}) {
    sessions.emplace_back();
    sessions.back().tokens.resize(tokens);
  }
  size_t next = 0;
  for (uint32_t task = 0; task < 3; ++task) {
    const SessionShare share = ShareOfSessions(sessions, {task, 3});
    EXPECT_EQ(share.first, next);
    next = share.last;
  }
  EXPECT_EQ(next, sessions.size());
  EXPECT_EQ(ShareOfSessions(sessions, {0, 2}).last, 3u);
  size_t seen = 0;
  for (uint32_t task = 0; task < 9; ++task) {
    const SessionShare share = ShareOfSessions(sessions, {task, 9});
    seen += share.last - share.first;
  }
  EXPECT_EQ(seen, sessions.size());
}

TEST_F(ProfileTasks, MakeTheStatisticsOfOneRun) {
  ASSERT_EQ(Profile("-o whole.json").status, 0);
  for (const char* task : {"2/3 --threads 1", "0/3", "1/3 --threads 2"}) {
    const ToolRun run = Profile(std::string("-o out.json --task ") + task);
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("wrote the statistics of "));
    EXPECT_THAT(run.out, HasSubstr("moepack join out.json.tasks -o out.json\n"));
  }
  const ToolRun again = Profile("-o out.json --task 1/3");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("nothing to do: out.json.tasks/00001-of-00003 is there"));
  const ToolRun dry = workspace_.Moepack("join out.json.tasks -o out.json --dry-run");
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_FALSE(fs::exists(workspace_ / "out.json"));
  const ToolRun join = workspace_.Moepack("join out.json.tasks -o out.json");
  ASSERT_EQ(join.status, 0) << join.err;
  EXPECT_THAT(join.out, HasSubstr(" of 3 tasks, "));
  EXPECT_EQ(ReadFile(workspace_ / "out.json"), ReadFile(workspace_ / "whole.json"));
  const ToolRun there = workspace_.Moepack("join out.json.tasks -o out.json");
  EXPECT_EQ(there.status, 2);
  EXPECT_EQ(workspace_.Json("join out.json.tasks -o out.json --force --json")["tasks"], 3);
}

TEST_F(ProfileTasks, AMachineThatIsLostIsReplaced) {
  ASSERT_EQ(Profile("-o whole.json").status, 0);
  ASSERT_EQ(Profile("-o out.json --task 0/2").status, 0);
  std::istringstream words(std::string(kProfile) + "-o out.json --task 1/2");
  ChildProcess lost(workspace_.path(), {std::istream_iterator<std::string>(words), {}});
  lost.Kill(SIGKILL);
  EXPECT_EQ(lost.Wait().signal, SIGKILL);
  const ToolRun absent = workspace_.Moepack("join out.json.tasks -o out.json");
  EXPECT_EQ(absent.status, 5);
  EXPECT_THAT(absent.err, HasSubstr("out.json.tasks: tasks: expected 2, found 1: 1 is missing"));
  EXPECT_THAT(absent.err, HasSubstr("hint: run what is missing with the command of the others and "
                                    "--task 1/2\n"));
  ASSERT_EQ(Profile("-o out.json --task 1/2 --threads 1").status, 0);
  ASSERT_EQ(workspace_.Moepack("join out.json.tasks -o out.json").status, 0);
  EXPECT_EQ(ReadFile(workspace_ / "out.json"), ReadFile(workspace_ / "whole.json"));
}

TEST_F(ProfileTasks, ThatDoNotFitTogetherAreNamed) {
  ASSERT_EQ(Profile("-o out.json --task 0/2").status, 0);
  const auto refused = [&](const std::string& arguments, int status, const std::string& message) {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_THAT(run.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(workspace_ / "out.json"));
  };
  refused("join out.json.tasks -o out.json", 5,
          "out.json.tasks: tasks: expected 2, found 1: 1 is missing");
  refused(std::string(kProfile) + "-o out.json --context 64 --task 0/2", 2,
          "00000-of-00002: context: expected 64, found 512");
  ASSERT_EQ(Profile("-o out.json --context 64 --task 1/2").status, 0);
  refused("join out.json.tasks -o out.json", 6, "00001-of-00002: context: expected 512, found 64");
  ASSERT_EQ(Profile("-o out.json --force --task 1/2").status, 0);
  refused("join out.json.tasks -o out", 2, "out");
  refused("join out.json.tasks -o out.json --link copy", 2, "--link has no effect on tasks of a");
  refused("join out.json.tasks fixtures -o out.json", 2, "fixtures: expected tasks of a profile");
  const std::string record = "out.json.tasks/00001-of-00002/profile-task.json";
  const std::string text = ReadFile(workspace_ / record);
  std::string other = text;
  other.replace(other.find("\"instructions\": \""), 17, "\"instructions\": \"other than ");
  WriteAll(workspace_ / record, other);
  refused("join out.json.tasks -o out.json", 6, "00001-of-00002: instructions: expected ");
  WriteAll(workspace_ / record, text);
  WriteAll(workspace_ / "out.json.tasks/00001-of-00002/statistics.json.zst", "damaged");
  refused("join out.json.tasks -o out.json", 6, "statistics.json.zst: sha256: expected ");
}

TEST_F(ProfileTasks, RefuseWhatTakesAllSessions) {
  const auto refused = [&](const std::string& rest, const std::string& message) {
    const ToolRun run = Profile(rest + " --task 0/2");
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(workspace_ / "out.json.tasks"));
  };
  refused("", "--task needs -o FILE");
  refused("-o -", "--task needs -o FILE");
  refused("-o out.json --trace t.csv", "--trace cannot be used in a task");
  refused("-o out.json --imatrix m.gguf", "--imatrix cannot be used in a task");
  refused("-o out.json --merge whole.json", "--merge cannot be used in a task");
  refused("-o out.json --generate 4", "--generate cannot be used in a task");
}

}  // namespace
}  // namespace moepack::cli
