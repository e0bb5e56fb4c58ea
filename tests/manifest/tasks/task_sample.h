// Tasks of tiny distributions in one directory, and joins of them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fixtures/memory_temp.h"
#include "fixtures/temp_dir.h"
#include "manifest/tasks/task_join.h"
#include "manifest/tasks/task_record.h"
#include "manifest/tasks/task_write.h"
#include "tests/manifest/document/tiny_distribution.h"

namespace moepack::manifest {

class TasksTest : public testing::Test {
 protected:
  Result<TaskReport> Task(TaskNumber number, const WriteOptions& options = tiny::Only(),
                          const std::string& out = "out", bool force = false) {
    const MoeModel model = tiny::Model();
    auto draft = DraftDistribution(model, tiny::Plan(model), (dir_ / out).string(), options);
    if (!draft) return std::move(draft).error();
    TaskOptions task;
    task.number = number;
    task.pack = options.pack;
    task.force = force;
    return WriteTask(*std::move(draft), (dir_ / out).string(), task);
  }
  void AllTasks(uint32_t count, const WriteOptions& options = tiny::Only(),
                const std::string& out = "out") {
    for (uint32_t i = 0; i < count; ++i) {
      const auto report = Task({i, count}, options, out);
      ASSERT_TRUE(report) << report.error().message;
    }
  }
  std::filesystem::path TaskDirectory(TaskNumber number, const std::string& out = "out") const {
    return std::filesystem::path(TasksDirectory((dir_ / out).string())) / TaskName(number);
  }
  Result<TaskJoinReport> Join(const std::string& out = "out",
                              std::vector<std::string> inputs = {"out.tasks"}) {
    for (std::string& input : inputs) input = (dir_ / input).string();
    auto tasks = FindTasks(inputs);
    if (!tasks) return std::move(tasks).error();
    return JoinTasks(*tasks, (dir_ / out).string(), {});
  }
  // The error of a join that must leave everything unchanged.
  Error Refusal(const std::vector<std::string>& inputs = {"out.tasks"}) {
    const auto before = tiny::Tree(dir_.path());
    const auto report = Join("joined", inputs);
    EXPECT_FALSE(report);
    EXPECT_TRUE(tiny::Tree(dir_.path()) == before);
    return report ? Error{Code::kIo, ""} : report.error();
  }
  const fixtures::MemoryTemp in_memory_;
  fixtures::TempDir dir_;
};

}  // namespace moepack::manifest
