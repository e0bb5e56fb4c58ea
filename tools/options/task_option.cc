#include "tools/options/task_option.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"

namespace moepack::cli {
namespace {

constexpr const char* kTaskOption = "--task";
constexpr const char* kAuto = "auto";
constexpr const char* kIgnoreHint =
    "give the task as --task I/N; without --task, all the work is done here";

// The variables of a scheduler.
struct Scheduler {
  const char* name;
  const char* index;
  const char* count;
};
// A job array comes first, because what runs inside it may be started by a launcher.
constexpr const char* kArrayIndex = "SLURM_ARRAY_TASK_ID";
constexpr const char* kArrayCount = "SLURM_ARRAY_TASK_COUNT";
constexpr const char* kArrayLeast = "SLURM_ARRAY_TASK_MIN";
constexpr const char* kArrayMost = "SLURM_ARRAY_TASK_MAX";
constexpr const char* kArrayStep = "SLURM_ARRAY_TASK_STEP";
constexpr Scheduler kSchedulers[] = {
    {"a Slurm job array", kArrayIndex, kArrayCount},
    {"an Indexed Job of Kubernetes", "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS"},
    {"mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"a launcher with PMI", "PMI_RANK", "PMI_SIZE"},
};

// An empty variable is none.
const char* Find(const Lookup& lookup, const char* name) {
  const char* const text = lookup(name);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

Result<uint64_t> Number(const Lookup& lookup, const char* name) {
  const char* const text = Find(lookup, name);
  if (text == nullptr) {
    return Error{Code::kInvalidArgument, Cat(name, ": expected a number, found nothing"),
                 kIgnoreHint};
  }
  if (const auto number = ParseUint(text)) return *number;
  return Error{Code::kInvalidArgument, Cat(name, ": expected a number, found ", Quoted(text)),
               kIgnoreHint};
}

// `where` names what says it: an option or a variable.
Status CheckCount(const char* where, uint64_t count, const char* hint) {
  if (count > 0 && count <= kMaxTasks) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(where, ": expected 1 to ", kMaxTasks, " tasks, found ", count), hint};
}

// REQUIRES: CheckCount.
Result<TaskNumber> Checked(const char* where, uint64_t index, uint64_t count, const char* hint) {
  if (index < count) return TaskNumber{static_cast<uint32_t>(index), static_cast<uint32_t>(count)};
  const std::string expected =
      count == 1 ? "task 0, the only one" : Cat("a task from 0 to ", count - 1, " of ", count);
  return Error{Code::kInvalidArgument, Cat(where, ": expected ", expected, ", found ", index),
               hint};
}

// The ids of an array may begin anywhere and have a step. An array that is not evenly spaced, or
// has only one task, is used to repeat a few tasks: their position among all is then unknown.
Result<TaskNumber> ArrayTask(const Lookup& lookup) {
  SHARD_TRY(const uint64_t id, Number(lookup, kArrayIndex));
  SHARD_TRY(const uint64_t count, Number(lookup, kArrayCount));
  SHARD_CHECK(CheckCount(kArrayCount, count, kIgnoreHint));
  uint64_t least = 0, step = 1;
  if (Find(lookup, kArrayLeast)) {
    SHARD_TRY(least, Number(lookup, kArrayLeast));
  }
  if (Find(lookup, kArrayStep)) {
    SHARD_TRY(step, Number(lookup, kArrayStep));
  }
  uint64_t most = least + (count - 1) * step;
  const bool stated = Find(lookup, kArrayMost) != nullptr;
  if (stated) {
    SHARD_TRY(most, Number(lookup, kArrayMost));
  }
  const bool even = step > 0 && count > 1 && id >= least && most >= least &&
                    (most - least) / step + 1 == count && (id - least) % step == 0;
  if (even) return Checked(kArrayIndex, (id - least) / step, count, kIgnoreHint);
  return Error{Code::kInvalidArgument,
               Cat("the job array: expected evenly spaced tasks, two or more, found ", count,
                   stated ? Cat(" from ", least, " to ", most) : Cat(", of which this is ", id)),
               Cat("to repeat some tasks of a larger array, write `--task ", id,
                   "/N` with the number N of all")};
}

Result<TaskNumber> TaskOf(const Scheduler& scheduler, const Lookup& lookup) {
  if (std::string_view(scheduler.index) == kArrayIndex) return ArrayTask(lookup);
  SHARD_TRY(const uint64_t index, Number(lookup, scheduler.index));
  SHARD_TRY(const uint64_t count, Number(lookup, scheduler.count));
  SHARD_CHECK(CheckCount(scheduler.count, count, kIgnoreHint));
  return Checked(scheduler.index, index, count, kIgnoreHint);
}

Result<std::optional<ChosenTask>> FromEnvironment(const Lookup& lookup) {
  std::optional<ChosenTask> chosen;
  bool alone = false;
  for (const Scheduler& scheduler : kSchedulers) {
    if (Find(lookup, scheduler.index) == nullptr) continue;
    SHARD_TRY(const TaskNumber number, TaskOf(scheduler, lookup));
    if (number.count == 1) {  // nothing is divided
      alone = true;
      continue;
    }
    if (chosen && !(chosen->number == number)) {
      return Error{Code::kInvalidArgument,
                   Cat("the environment: expected one task, found ", chosen->number.index, " of ",
                       chosen->number.count, " by ", chosen->variable, " and ", number.index,
                       " of ", number.count, " by ", scheduler.index),
                   kIgnoreHint};
    }
    if (!chosen) chosen = ChosenTask{number, scheduler.index};
    alone = false;
  }
  if (chosen || alone) return chosen;
  std::string names;
  for (const Scheduler& scheduler : kSchedulers) {
    const bool last = &scheduler == std::end(kSchedulers) - 1;
    names += Cat(names.empty() ? "" : last ? " or " : ", ", scheduler.name);
  }
  return Error{Code::kInvalidArgument,
               Cat("--task auto: expected the variables of ", names, ", found none"), kIgnoreHint};
}

}  // namespace

void AddTask(CLI::App& app, TaskArguments& arguments) {
  StartSection(app, "Tasks");
  CLI::Option* task =
      app.add_option(kTaskOption, arguments.text,
                     "Do one of N equal shares of the work, the one with number I, from 0 to N-1, "
                     "and write it to OUT.tasks. `moepack join OUT.tasks -o OUT` makes the output "
                     "of all. With `auto` the number comes from what a Slurm job array, an Indexed "
                     "Job of Kubernetes (with JOB_COMPLETIONS), Open MPI or PMI says in the "
                     "environment.")
          ->type_name("I/N");
  app.add_flag("--no-task", arguments.no_task,
               "Do all the work, as without --task, and do not warn that a scheduler runs several "
               "tasks.")
      ->excludes(task);
}

Result<std::optional<ChosenTask>> FindTask(const TaskArguments& arguments, const Lookup& lookup) {
  if (arguments.no_task || arguments.text.empty()) return std::optional<ChosenTask>();
  if (arguments.text == kAuto) return FromEnvironment(lookup);
  const std::vector<std::string> parts = Split(arguments.text, '/');
  const auto index = ParseUint(parts[0]);
  const auto count = parts.size() == 2 ? ParseUint(parts[1]) : std::nullopt;
  if (!index || !count) {
    return Error{Code::kInvalidArgument, Cat("--task: expected a number, a slash and the number of "
                                             "tasks, as in 3/16, or auto, found ",
                                             Quoted(arguments.text))};
  }
  SHARD_CHECK(CheckCount(kTaskOption, *count, ""));
  SHARD_TRY(const TaskNumber number, Checked(kTaskOption, *index, *count, ""));
  return std::optional(ChosenTask{number});
}

std::string TaskWarning(const TaskArguments& arguments, const Lookup& lookup) {
  if (arguments.no_task || !arguments.text.empty()) return "";
  for (const Scheduler& scheduler : kSchedulers) {
    const char* const count = lookup(scheduler.count);
    const bool alone = count != nullptr && std::string_view(count) == "1";
    if (Find(lookup, scheduler.index) == nullptr || alone) continue;
    return Cat(scheduler.index,
               " says that this is one of several tasks, but all the work is done "
               "here: --task auto does one share of it, and --no-task silences this warning");
  }
  return "";
}

Result<std::optional<TaskNumber>> ChooseTask(const TaskArguments& arguments) {
  const Lookup lookup = [](const char* name) { return std::getenv(name); };
  SHARD_TRY(const std::optional<ChosenTask> chosen, FindTask(arguments, lookup));
  if (!chosen) {
    const std::string warning = TaskWarning(arguments, lookup);
    if (!warning.empty()) PrintWarnings({warning});
    return std::optional<TaskNumber>();
  }
  const TaskNumber& number = chosen->number;
  if (!chosen->variable.empty()) {
    PrintNotes({Cat("task ", number.index, " of ", number.count, ", by ", chosen->variable)});
  }
  return std::optional(number);
}

}  // namespace moepack::cli
