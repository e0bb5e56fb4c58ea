#include "manifest/tasks/task_write.h"

#include <gmock/gmock.h>

#include "fixtures/system_calls.h"
#include "tests/manifest/tasks/task_sample.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using WriteTaskTest = TasksTest;

TEST_F(WriteTaskTest, LeavesAFinishedTaskAlone) {
  const auto first = Task({1, 3});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(first->was_there);
  EXPECT_EQ(first->directory, TaskDirectory({1, 3}));
  const auto before = tiny::Tree(dir_.path());
  const auto time = fs::last_write_time(TaskDirectory({1, 3}) / kTaskFile);
  const auto again = Task({1, 3});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->was_there);
  EXPECT_TRUE(tiny::Tree(dir_.path()) == before);
  EXPECT_EQ(fs::last_write_time(TaskDirectory({1, 3}) / kTaskFile), time);
  const auto forced = Task({1, 3}, tiny::Only(), "out", true);
  ASSERT_TRUE(forced) << forced.error().message;
  EXPECT_FALSE(forced->was_there);
  EXPECT_TRUE(tiny::Tree(dir_.path()) == before);
}

TEST_F(WriteTaskTest, ATaskStartedTwiceAtOnceRunsOnlyOnce) {
  const auto other = StagingDirectory::Open(TaskDirectory({1, 3}));
  ASSERT_TRUE(other);
  const auto report = Task({1, 3});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kIo);
  EXPECT_FALSE(fs::exists(TaskDirectory({1, 3})));
}

TEST_F(WriteTaskTest, ReplacesATaskOfOtherWorkOnlyOnRequest) {
  ASSERT_TRUE(Task({0, 2}));
  WriteOptions other = tiny::Only();
  other.revision = "v2";
  const auto refused = Task({0, 2}, other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("expected a task of this work"));
  EXPECT_TRUE(Task({0, 2}, other, "out", true));
  fixtures::WriteFile(TaskDirectory({0, 2}) / "notes.txt", "mine");
  const auto strange = Task({0, 2}, other, "out", true);
  ASSERT_FALSE(strange);
  EXPECT_THAT(strange.error().message, HasSubstr("holds \"notes.txt\", which no task wrote"));
  EXPECT_TRUE(fs::exists(TaskDirectory({0, 2}) / "notes.txt"));
}

TEST_F(WriteTaskTest, ADamagedRecordIsReplacedOnRequest) {
  ASSERT_TRUE(Task({1, 2}));
  const auto whole = tiny::Tree(dir_.path());
  const fs::path record = TaskDirectory({1, 2}) / kTaskFile;
  const auto damage = [&](int how) {
    if (how == 0) fs::resize_file(record, 100);
    if (how == 1) fs::remove(record);
  };
  for (int how = 0; how < 2; ++how) {
    damage(how);
    const auto refused = Task({1, 2});
    ASSERT_FALSE(refused) << how;
    EXPECT_THAT(refused.error().message, HasSubstr(record.string()));
    EXPECT_THAT(refused.error().hint, HasSubstr("run again, with --force"));
    const auto forced = Task({1, 2}, tiny::Only(), "out", true);
    ASSERT_TRUE(forced) << how << ": " << forced.error().message;
    EXPECT_TRUE(tiny::Tree(dir_.path()) == whole) << how;
  }
}

TEST_F(WriteTaskTest, AnEmptyDirectoryIsAFreeOutput) {
  ASSERT_TRUE(Task({1, 2}));
  const auto whole = tiny::Tree(dir_.path());
  fs::remove_all(TaskDirectory({1, 2}));
  fs::create_directory(TaskDirectory({1, 2}));
  const auto report = Task({1, 2});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(tiny::Tree(dir_.path()) == whole);
}

TEST_F(WriteTaskTest, KeepsFilesThatLookLikeItsOwn) {
  ASSERT_TRUE(Task({1, 2}));
  fs::create_directories(TaskDirectory({1, 2}) / "assets");
  for (const char* name : {"assets/notes.txt", kPlannedFile}) {
    fixtures::WriteFile(TaskDirectory({1, 2}) / name, "mine");
    const auto before = tiny::Tree(dir_.path());
    const auto refused = Task({1, 2}, tiny::Only(), "out", true);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr(name));
    EXPECT_TRUE(tiny::Tree(dir_.path()) == before) << name;
    fs::remove(TaskDirectory({1, 2}) / name);
  }
}

TEST_F(WriteTaskTest, ADryRunWritesNothingAndPredictsTheBytes) {
  const MoeModel model = tiny::Model();
  const std::string out = (dir_ / "out").string();
  auto draft = DraftDistribution(model, tiny::Plan(model), out, tiny::Only());
  ASSERT_TRUE(draft) << draft.error().message;
  TaskOptions options;
  options.number = {1, 3};
  options.dry_run = true;
  const auto dry = WriteTask(*std::move(draft), out, options);
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_TRUE(tiny::Tree(dir_.path()).empty());
  ASSERT_TRUE(Task({1, 3}));
  uint64_t bytes = 0;
  for (const auto& [name, text] : tiny::Tree(TaskDirectory({1, 3})))
    bytes += name == kTaskFile ? 0 : text.size();
  EXPECT_EQ(dry->bytes, bytes);
  EXPECT_GE(dry->imbalance, 1);
  EXPECT_LT(dry->imbalance, 1.1);
}

TEST_F(WriteTaskTest, RefusesTheSourceAsItsOutput) {
  const MoeModel model = tiny::Model();
  const auto draft =
      DraftDistribution(model, tiny::Plan(model), tiny::kSource.string(), tiny::Only());
  ASSERT_FALSE(draft);
  EXPECT_THAT(draft.error().message, HasSubstr("is the input itself"));
}

}  // namespace
}  // namespace moepack::manifest
