// TMPDIR, and what killed runs leave under temporary names.
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/tools/child_process.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

ToolRun WithTmpdir(const Workspace& workspace, const fs::path& tmpdir,
                   const std::string& arguments) {
  const char* const before = std::getenv("TMPDIR");
  const std::string usual = before != nullptr ? before : "";
  setenv("TMPDIR", tmpdir.c_str(), 1);
  ToolRun run = workspace.Moepack(arguments);
  before != nullptr ? setenv("TMPDIR", usual.c_str(), 1) : unsetenv("TMPDIR");
  return run;
}

// `refit` let an exception of the standard library end the run.
TEST(TemporaryFiles, ATmpdirThatNamesNothingIsNamedByEveryCommandThatUsesIt) {
  const Workspace workspace;
  ASSERT_EQ(workspace.Moepack("build fixtures/tiny-moe --groups 2 -o dist").status, 0);
  const std::map<std::string, std::string> commands = {
      {"refit", "refit dist --against fixtures/tiny-moe --tokens 1,2,3,4 --store kept"},
      {"check", "check dist --threads 1"}};
  for (const auto& [name, command] : commands) {
    const ToolRun run = WithTmpdir(workspace, workspace / "none", command);
    EXPECT_EQ(run.status, 5) << name << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr("TMPDIR: " + (workspace / "none").string() +
                                   ": expected a directory for temporary files, found none"))
        << name;
  }
}

// A document is written under a temporary name, which a killed run left for good.
TEST(TemporaryFiles, WhatAKilledRunLeftOfADocumentIsRemovedByTheNext) {
  const Workspace workspace;
  WriteAll(workspace / "plan.json.tmp-4711", "{ \"half");
  WriteAll(workspace / "other.json.tmp-4711", "of another document");
  const ToolRun run = workspace.Moepack("plan fixtures/tiny-moe --groups 2 -o plan.json");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_FALSE(fs::exists(workspace / "plan.json.tmp-4711"));
  EXPECT_TRUE(fs::exists(workspace / "other.json.tmp-4711"));
}

// As git and restic take it.
TEST(EmptyDirectory, IsAFreeOutputOfEveryCommandThatWritesOne) {
  const Workspace workspace;
  ASSERT_EQ(workspace.Moepack("build fixtures/tiny-moe --groups 2 -o dist").status, 0);
  for (const char* command :
       {"build fixtures/tiny-moe --groups 2 -o", "shard-experts fixtures/tiny-moe --groups 2 -o",
        "shard-experts fixtures/tiny-moe --groups 2 --only trunk -o", "assemble dist --group 1 -o",
        "pull dist --group 1 -o", "publish dist --to-dir",
        "overlay dist --overlay-file fixtures/tiny-overlay.json --source fixtures/tiny-moe -o"}) {
    fs::remove_all(workspace / "new");
    fs::create_directories(workspace / "new");
    const ToolRun run = workspace.Moepack(std::string(command) + " new");
    EXPECT_EQ(run.status, 0) << command << "\n" << run.err;
    EXPECT_FALSE(fs::is_empty(workspace / "new")) << command;
    EXPECT_FALSE(fs::exists(workspace / "new/.moepack.partial")) << command;
  }
}

TEST(EmptyDirectory, MayBeTheCurrentOne) {
  const Workspace workspace;
  fs::create_directories(workspace / "here");
  const ChildEnd end = ChildProcess(workspace / "here",
                                    {"build", "../fixtures/tiny-moe", "--groups", "2", "-o", "."})
                           .Wait();
  EXPECT_EQ(end.status, 0) << end.err;
  EXPECT_TRUE(fs::exists(workspace / "here/distribution.json"));
}

}  // namespace
}  // namespace moepack::cli
