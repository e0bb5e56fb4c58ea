// --task of build, shard-experts and quantize, and joins of the outputs of tasks.
#include <gmock/gmock.h>

#include <map>

#include "fixtures/temp_dir.h"
#include "manifest/tasks/task_record.h"
#include "tests/tools/child_process.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

std::map<std::string, std::string> FilesBelow(const fs::path& root) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), root).string()] = ReadFile(entry.path());
  }
  return files;
}

class TaskCommand : public testing::Test {
 protected:
  // Runs the tasks of a command, the last one first.
  void RunTasks(const std::string& command, int count) const {
    for (int i = count - 1; i >= 0; --i) {
      const ToolRun run = workspace_.Moepack(command + " --task " + std::to_string(i) + "/" +
                                             std::to_string(count));
      ASSERT_EQ(run.status, 0) << run.err;
    }
  }
  ToolRun Fails(const std::string& arguments, int status) const {
    const std::string before = workspace_.Listing();
    ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, status) << arguments << "\n" << run.err;
    EXPECT_EQ(workspace_.Listing(), before);
    return run;
  }
  Workspace workspace_;
};

constexpr const char* kTaskBuild =
    "build fixtures/tiny-moe --groups 3 --overlay-file fixtures/tiny-overlay.json "
    "--quantize Q4_K_M ";

TEST_F(TaskCommand, TasksOfABuildJoinToTheDirectoryOfASingleRun) {
  ASSERT_EQ(workspace_.Moepack(std::string(kTaskBuild) + "-o whole").status, 0);
  RunTasks(std::string(kTaskBuild) + "-o out", 4);
  const ToolRun run = workspace_.Moepack("join out.tasks -o out");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(" of 4 tasks to out in "));
  EXPECT_THAT(run.out, HasSubstr("; all parts are there\ndistribution.json sha256:"));
  EXPECT_TRUE(FilesBelow(workspace_ / "out") == FilesBelow(workspace_ / "whole"));
  EXPECT_EQ(workspace_.Moepack("verify out --complete --against fixtures/tiny-moe").status, 0);
}

TEST_F(TaskCommand, ASingleTaskIsCountedInTheSingular) {
  RunTasks("quantize fixtures/tiny-moe --recipe Q8_0 -o one.gguf", 1);
  const ToolRun run = workspace_.Moepack("join one.gguf.tasks -o one.gguf");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(" of 1 task to one.gguf in "));
}

TEST_F(TaskCommand, TheMembersOfItsJsonAreDocumented) {
  const std::string page = ReadFile(workspace_ / "docs/cli.md");
  const auto expect_documented = [&](const nlohmann::json& document, const std::string& from,
                                     const std::string& to) {
    const size_t begin = page.find(from), end = page.find(to, begin);
    ASSERT_NE(begin, std::string::npos) << from;
    ASSERT_NE(end, std::string::npos) << to;
    const std::string section = page.substr(begin, end - begin);
    for (const auto& [member, value] : document.items())
      EXPECT_THAT(section, HasSubstr("`" + member + (value.is_array() ? "[]`" : "`")));
  };
  const std::string build = "build fixtures/tiny-moe --groups 2 -o out --json --task ";
  for (const char* task : {"0/2", "1/2", "1/2 --dry-run"})
    expect_documented(workspace_.Json(build + task),
                      "\n`build`, `shard-experts` and `quantize` as ", "\n`verify`:");
  const std::string join = "join out.tasks -o out --json";
  const auto dry = workspace_.Json(join + " --dry-run");
  EXPECT_FALSE(dry.contains("complete") || dry.contains("manifest_sha256"));
  for (const nlohmann::json& document : {dry, workspace_.Json(join)})
    expect_documented(document, "\n| `output`, `dry_run` | as given |\n| `tasks` | how many",
                      "\n`overlay`:");
}

TEST_F(TaskCommand, TasksOfShardExpertsJoinToo) {
  const std::string shard = "shard-experts fixtures/tiny-moe --groups 2 --chunk-map -o ";
  ASSERT_EQ(workspace_.Moepack(shard + "whole").status, 0);
  RunTasks(shard + "out", 3);
  const auto joined = workspace_.Json("join out.tasks -o out --json");
  EXPECT_EQ(joined["tasks"], 3);
  EXPECT_EQ(joined["complete"], true);
  EXPECT_TRUE(FilesBelow(workspace_ / "out") == FilesBelow(workspace_ / "whole"));
}

TEST_F(TaskCommand, TasksOfQuantizeJoinToOneGgufOrASplitSet) {
  for (const char* more : {"", "--max-part-size 2M "}) {
    const std::string quantize = std::string("quantize fixtures/tiny-moe --recipe Q4_K_M ") + more;
    fs::create_directories(workspace_ / "whole");
    fs::create_directories(workspace_ / "joined");
    ASSERT_EQ(workspace_.Moepack(quantize + "-o whole/tiny.gguf").status, 0);
    RunTasks(quantize + "-o model.gguf", 3);
    const ToolRun run = workspace_.Moepack("join model.gguf.tasks -o joined/tiny.gguf");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(FilesBelow(workspace_ / "joined") == FilesBelow(workspace_ / "whole")) << more;
    for (const char* name : {"whole", "joined", "model.gguf.tasks"})
      fs::remove_all(workspace_ / name);
  }
}

TEST_F(TaskCommand, TasksThatQuantizeADistributionJoinToTheNewOne) {
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 --format gguf -o bf16").status,
            0);
  const std::string quantize = "quantize bf16 --recipe Q4_K_M -o ";
  ASSERT_EQ(workspace_.Moepack(quantize + "whole").status, 0);
  RunTasks(quantize + "out", 3);
  const ToolRun run = workspace_.Moepack("join out.tasks -o out");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(FilesBelow(workspace_ / "out") == FilesBelow(workspace_ / "whole"));
}

// A job array may run anything; a run in it that silently did a share would look as if it were
// done.
TEST_F(TaskCommand, InASchedulersEnvironmentAShareIsMadeOnlyWhenAskedFor) {
  setenv("JOB_COMPLETION_INDEX", "1", 1);
  setenv("JOB_COMPLETIONS", "2", 1);
  const ToolRun run = workspace_.Moepack(std::string(kTaskBuild) + "--task auto -o out");
  const ToolRun whole = workspace_.Moepack(std::string(kTaskBuild) + "-o out");
  const ToolRun silent = workspace_.Moepack(std::string(kTaskBuild) + "--no-task -o other");
  unsetenv("JOB_COMPLETION_INDEX");
  unsetenv("JOB_COMPLETIONS");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("note: task 1 of 2, by JOB_COMPLETION_INDEX\n"));
  EXPECT_TRUE(fs::exists(workspace_ / "out.tasks/00001-of-00002/task.json"));
  EXPECT_EQ(whole.status, 0) << whole.err;
  EXPECT_THAT(whole.err, HasSubstr("warning: JOB_COMPLETION_INDEX says that this is one of several "
                                   "tasks, but all the work is done here: --task auto"));
  EXPECT_TRUE(fs::exists(workspace_ / "out/distribution.json"));
  EXPECT_EQ(silent.status, 0) << silent.err;
  EXPECT_EQ(silent.err.find("JOB_COMPLETION_INDEX"), std::string::npos) << silent.err;
}

TEST_F(TaskCommand, AFinishedTaskSaysSoAndJoinNamesMissingTasks) {
  const std::string task = std::string(kTaskBuild) + "-o out --task 1/3";
  ToolRun run = workspace_.Moepack(task);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("wrote "));
  EXPECT_THAT(run.out, HasSubstr("when all tasks are done:\n  moepack join out.tasks -o out\n"));
  run = workspace_.Moepack(task);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("nothing to do: out.tasks/00001-of-00003 is there already\n"));
  run = Fails("join out.tasks -o out", 5);
  EXPECT_THAT(run.err, HasSubstr("tasks: expected 3, found 1: 0 and 2 are missing\n"));
}

TEST_F(TaskCommand, ADryRunSaysWhatTheTaskWouldDo) {
  const auto dry = workspace_.Json(std::string(kTaskBuild) + "-o out --task 0/2 --dry-run --json");
  EXPECT_EQ(dry["directory"], "out.tasks/00000-of-00002");
  EXPECT_EQ(dry["dry_run"], true);
  EXPECT_FALSE(fs::exists(workspace_ / "out.tasks"));
  const auto done = workspace_.Json(std::string(kTaskBuild) + "-o out --task 0/2 --json");
  EXPECT_EQ(done["bytes"], dry["bytes"]);
  EXPECT_LT(done["imbalance"], 1.1);
}

TEST_F(TaskCommand, RefusesOptionsThatNeedTheWholeInATask) {
  const std::string task = std::string(kTaskBuild) + "-o out --task 0/2 ";
  const std::map<std::string, std::string> options = {{"--prove", "--prove"},
                                                      {"--cold", "--cold"},
                                                      {"--hash-source", "--hash-source"},
                                                      {"--dry-run --tensors", "--tensors"}};
  for (const auto& [words, named] : options) {
    const ToolRun run = Fails(task + words, 2);
    EXPECT_THAT(run.err, HasSubstr("error: " + named + " cannot be used in a task"));
  }
  Fails(task + "--refit --text docs/cli.md", 2);
  Fails("quantize fixtures/tiny-moe --recipe Q4_K_M -o a.gguf --task 0/2 --dry-run --tensors", 2);
  Fails(task + "--no-task", 2);
  EXPECT_THAT(Fails(std::string(kTaskBuild) + "-o out --task 2/2", 2).err,
              HasSubstr("--task: expected a task from 0 to 1 of 2, found 2"));
}

TEST_F(TaskCommand, AJoinOfTasksRefusesLinksAndNeedsTheNameOfAGguf) {
  RunTasks("quantize fixtures/tiny-moe --recipe Q8_0 -o model.gguf", 1);
  EXPECT_THAT(Fails("join model.gguf.tasks --link copy -o model.gguf", 2).err,
              HasSubstr("--link has no effect on tasks"));
  EXPECT_THAT(Fails("join model.gguf.tasks -o model-00001-of-00002.gguf", 2).err,
              HasSubstr("has no \"-of-\" in it, found \"model-00001-of-00002.gguf\""));
  fs::create_directory(workspace_ / "taken.gguf");
  EXPECT_THAT(Fails("join model.gguf.tasks --force -o taken.gguf", 2).err,
              HasSubstr("taken.gguf is a directory"));
  EXPECT_THAT(Fails("join model.gguf.tasks -o model", 2).err,
              HasSubstr("expected a file name that ends in .gguf and has no \"-of-\" in it, found "
                        "\"model\""));
}

// Nothing in one GGUF would tell that half of it is of another model.
TEST_F(TaskCommand, TasksOfAFineTuneWithTheSameHeaderAreNotJoined) {
  const fs::path tuned = workspace_ / "tuned";
  fs::copy(workspace_ / "fixtures/tiny-moe", tuned, fs::copy_options::recursive);
  for (const auto& entry : fs::directory_iterator(tuned)) {
    if (entry.path().extension() != ".safetensors") continue;
    fs::permissions(entry.path(), fs::perms::owner_write, fs::perm_options::add);
    std::string bytes = fixtures::ReadFile(entry.path());
    for (size_t i = bytes.size() / 2; i < bytes.size(); i += 2)
      bytes[i] = static_cast<char>(bytes[i] ^ 1);
    fixtures::WriteFile(entry.path(), bytes);
  }
  const std::string rest = " --recipe Q8_0 -o model.gguf --task ";
  ASSERT_EQ(workspace_.Moepack("quantize fixtures/tiny-moe" + rest + "0/2").status, 0);
  ASSERT_EQ(workspace_.Moepack("quantize tuned" + rest + "1/2").status, 0);
  EXPECT_THAT(Fails("join model.gguf.tasks -o model.gguf", 6).err,
              HasSubstr("00001-of-00002/task.json: work: expected "));
}

TEST_F(TaskCommand, ARecordCannotNameFilesElsewhere) {
  RunTasks("quantize fixtures/tiny-moe --recipe Q8_0 -o model.gguf", 1);
  fs::create_directory(workspace_ / "model");
  const fs::path path = workspace_ / "model.gguf.tasks/00000-of-00001/task.json";
  auto record = manifest::ParseTaskRecord("task.json", fixtures::ReadFile(path));
  ASSERT_TRUE(record) << record.error().message;
  record->outputs[0].file = "model/evil.gguf";
  fixtures::WriteFile(path, manifest::WriteTaskRecord(*record));
  EXPECT_THAT(Fails("join model.gguf.tasks --force -o model.gguf", 3).err,
              HasSubstr("output 0: file: expected model.gguf, found model/evil.gguf"));
  record->distribution = true;
  fixtures::WriteFile(path, manifest::WriteTaskRecord(*record));
  Fails("join model.gguf.tasks --force -o model", 3);
}

// A killed task leaves only what its next run resumes from.
TEST_F(TaskCommand, OnlyAKilledTaskIsRepeated) {
  ASSERT_EQ(workspace_.Moepack(std::string(kTaskBuild) + "-o whole").status, 0);
  RunTasks(std::string(kTaskBuild) + "-o out", 2);
  fs::remove_all(workspace_ / "out.tasks/00001-of-00002");
  const std::vector<std::string> task = {"build",
                                         "fixtures/tiny-moe",
                                         "--groups",
                                         "3",
                                         "--overlay-file",
                                         "fixtures/tiny-overlay.json",
                                         "--quantize",
                                         "Q4_K_M",
                                         "-o",
                                         "out",
                                         "--task",
                                         "1/2"};
  for (int i = 1; i <= 20; ++i) {
    ChildProcess child(workspace_.path(), task);
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * i));
    child.Kill(SIGKILL);
    child.Wait();
    if (fs::exists(workspace_ / "out.tasks/00001-of-00002/task.json")) break;
  }
  const ToolRun last = workspace_.Moepack(std::string(kTaskBuild) + "-o out --task 1/2");
  ASSERT_EQ(last.status, 0) << last.err;
  ASSERT_EQ(workspace_.Moepack("join out.tasks -o out").status, 0);
  EXPECT_TRUE(FilesBelow(workspace_ / "out") == FilesBelow(workspace_ / "whole"));
}

}  // namespace
}  // namespace moepack::cli
