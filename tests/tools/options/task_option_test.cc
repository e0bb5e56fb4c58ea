#include "tools/options/task_option.h"

#include <gmock/gmock.h>

#include <map>

namespace moepack::cli {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Lookup In(const Variables& variables) {
  return [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Result<std::optional<ChosenTask>> Find(const Variables& variables,
                                       const TaskArguments& task = {"auto"}) {
  return FindTask(task, In(variables));
}

std::string TaskRefusal(const Variables& variables, const TaskArguments& task = {"auto"}) {
  const auto found = Find(variables, task);
  EXPECT_FALSE(found);
  return found ? "" : found.error().message;
}

void ExpectTask(const Variables& variables, uint32_t index, uint32_t count,
                const std::string& variable) {
  const auto found = Find(variables);
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_TRUE(*found) << variable;
  EXPECT_EQ((*found)->number, (TaskNumber{index, count}));
  EXPECT_EQ((*found)->variable, variable);
}

TEST(TaskOption, ReadsANumberASlashAndTheNumberOfTasks) {
  const auto found = Find({}, {"3/16"});
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->number, (TaskNumber{3, 16}));
  for (const char* wrong : {"3", "3/", "/16", "3/16/2", "a/16", "-1/16", "3 / 16"})
    EXPECT_THAT(TaskRefusal({}, {wrong}), HasSubstr("--task: expected a number, a slash")) << wrong;
  EXPECT_THAT(TaskRefusal({}, {"16/16"}),
              HasSubstr("expected a task from 0 to 15 of 16, found 16"));
  EXPECT_THAT(TaskRefusal({}, {"0/0"}), HasSubstr("expected 1 to 65536 tasks, found 0"));
  EXPECT_THAT(TaskRefusal({}, {"0/65537"}), HasSubstr("expected 1 to 65536 tasks, found 65537"));
  EXPECT_EQ(TaskRefusal({}, {"1/1"}), "--task: expected task 0, the only one, found 1");
}

TEST(TaskOption, WithoutItTheEnvironmentOfASchedulerIsOnlyAWarning) {
  const Variables array = {{"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_COUNT", "2"}};
  const auto found = Find(array, {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_FALSE(*found);
  EXPECT_THAT(TaskWarning({}, In(array)),
              HasSubstr("SLURM_ARRAY_TASK_ID says that this is one of"));
  EXPECT_EQ(TaskWarning({"auto"}, In(array)), "");
  EXPECT_EQ(TaskWarning({"", true}, In(array)), "");
  const Variables nothing, alone = {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}};
  EXPECT_EQ(TaskWarning({}, In(nothing)), "");
  EXPECT_EQ(TaskWarning({}, In(alone)), "");
  // What cannot be used is no error for a run that does not ask for it.
  const Variables wrong = {{"PMI_RANK", "x"}, {"PMI_SIZE", "y"}};
  EXPECT_FALSE(*Find(wrong, {}));
  EXPECT_THAT(TaskWarning({}, In(wrong)), HasSubstr("PMI_RANK"));
}

TEST(TaskOption, AutoNeedsAScheduler) {
  EXPECT_EQ(TaskRefusal({}),
            "--task auto: expected the variables of a Slurm job array, an Indexed Job of "
            "Kubernetes, mpirun of Open MPI or a launcher with PMI, found none");
  EXPECT_EQ(Find({}).error().hint,
            "give the task as --task I/N; without --task, all the work is done here");
}

TEST(TaskOption, AnEmptyVariableIsNoScheduler) {
  const Variables empty = {{"PMI_RANK", ""}, {"PMI_SIZE", ""}, {"SLURM_ARRAY_TASK_ID", ""}};
  EXPECT_EQ(TaskWarning({}, In(empty)), "");
  EXPECT_THAT(TaskRefusal(empty), HasSubstr("found none"));
  EXPECT_EQ(TaskRefusal({{"PMI_RANK", "1"}, {"PMI_SIZE", ""}}),
            "PMI_SIZE: expected a number, found nothing");
}

TEST(TaskOption, AutoIsTakenFromEveryKindOfScheduler) {
  ExpectTask({{"JOB_COMPLETION_INDEX", "4"}, {"JOB_COMPLETIONS", "8"}}, 4, 8,
             "JOB_COMPLETION_INDEX");
  ExpectTask({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, 1, 4,
             "OMPI_COMM_WORLD_RANK");
  ExpectTask({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, 0, 2, "PMI_RANK");
}

TEST(TaskOption, CountsAJobArrayFromItsSmallestIdByItsStep) {
  Variables array = {{"SLURM_ARRAY_TASK_ID", "9"},
                     {"SLURM_ARRAY_TASK_COUNT", "4"},
                     {"SLURM_ARRAY_TASK_MIN", "5"},
                     {"SLURM_ARRAY_TASK_MAX", "11"},
                     {"SLURM_ARRAY_TASK_STEP", "2"}};
  ExpectTask(array, 2, 4, "SLURM_ARRAY_TASK_ID");
  array = {
      {"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_COUNT", "4"}, {"SLURM_ARRAY_TASK_MIN", "1"}};
  ExpectTask(array, 0, 4, "SLURM_ARRAY_TASK_ID");
}

// `sbatch --array=3,7`: two tasks of an array that was larger.
TEST(TaskOption, DoesNotMistakeSomeTasksOfAnArrayForAll) {
  Variables array = {{"SLURM_ARRAY_TASK_ID", "7"},
                     {"SLURM_ARRAY_TASK_COUNT", "2"},
                     {"SLURM_ARRAY_TASK_MIN", "3"},
                     {"SLURM_ARRAY_TASK_MAX", "7"},
                     {"SLURM_ARRAY_TASK_STEP", "1"}};
  EXPECT_EQ(TaskRefusal(array),
            "the job array: expected evenly spaced tasks, two or more, found 2 from 3 to 7");
  EXPECT_THAT(Find(array).error().hint, HasSubstr("--task 7/N"));
  // No range is named that nobody stated.
  array = {{"SLURM_ARRAY_TASK_ID", "3"},
           {"SLURM_ARRAY_TASK_COUNT", "2"},
           {"SLURM_ARRAY_TASK_STEP", "2"}};
  EXPECT_EQ(
      TaskRefusal(array),
      "the job array: expected evenly spaced tasks, two or more, found 2, of which this is 3");
  array = {{"SLURM_ARRAY_TASK_ID", "3"},
           {"SLURM_ARRAY_TASK_COUNT", "1"},
           {"SLURM_ARRAY_TASK_MIN", "3"},
           {"SLURM_ARRAY_TASK_MAX", "3"}};
  EXPECT_THAT(TaskRefusal(array), HasSubstr("two or more, found 1"));
}

TEST(TaskOption, IgnoresALauncherWithOneProcess) {
  EXPECT_FALSE(*Find({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));
  ExpectTask({{"PMI_RANK", "0"},
              {"PMI_SIZE", "1"},
              {"SLURM_ARRAY_TASK_ID", "2"},
              {"SLURM_ARRAY_TASK_COUNT", "3"},
              {"SLURM_ARRAY_TASK_MIN", "0"}},
             2, 3, "SLURM_ARRAY_TASK_ID");
}

TEST(TaskOption, RefusesAnIncompleteEnvironment) {
  EXPECT_EQ(TaskRefusal({{"JOB_COMPLETION_INDEX", "4"}}),
            "JOB_COMPLETIONS: expected a number, found nothing");
  EXPECT_EQ(TaskRefusal({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}),
            "PMI_RANK: expected a number, found \"x\"");
  EXPECT_THAT(TaskRefusal({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}),
              HasSubstr("PMI_RANK: expected a task from 0 to 1 of 2, found 2"));
  EXPECT_EQ(TaskRefusal({{"PMI_RANK", "1"}, {"PMI_SIZE", "1"}}),
            "PMI_RANK: expected task 0, the only one, found 1");
  EXPECT_EQ(TaskRefusal({{"PMI_RANK", "0"},
                         {"PMI_SIZE", "2"},
                         {"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"}}),
            "the environment: expected one task, found 1 of 2 by OMPI_COMM_WORLD_RANK and 0 of 2 "
            "by PMI_RANK");
}

TEST(TaskOption, NamesTheVariableOfAWrongNumberOfTasks) {
  EXPECT_EQ(TaskRefusal({{"PMI_RANK", "1"}, {"PMI_SIZE", "99999"}}),
            "PMI_SIZE: expected 1 to 65536 tasks, found 99999");
  for (const char* count : {"0", "65537"}) {
    const Variables array = {{"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_COUNT", count}};
    EXPECT_EQ(TaskRefusal(array),
              std::string("SLURM_ARRAY_TASK_COUNT: expected 1 to 65536 tasks, found ") + count);
    EXPECT_THAT(Find(array).error().hint, HasSubstr("without --task"));
  }
}

TEST(TaskOption, TakesPrecedenceOverTheEnvironment) {
  const Variables variables = {{"PMI_RANK", "x"}, {"PMI_SIZE", "y"}};
  EXPECT_EQ((**Find(variables, {"1/2"})).number, (TaskNumber{1, 2}));
  EXPECT_FALSE(*Find(variables, {"", true}));
}

}  // namespace
}  // namespace moepack::cli
