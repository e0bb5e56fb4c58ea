// `profile --task`: one machine measures some of the sessions, and `join` makes the statistics of
// all.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/refit/calibration_text.h"
#include "libshard/stats/statistics.h"
#include "libshard/tasks/divide.h"
#include "tools/commands/join_shares.h"
#include "tools/options/session_texts.h"

namespace moepack::cli {

// Sessions [first, last) of those that were read.
struct SessionShare {
  size_t first = 0, last = 0;
};
// Every task gets a run of sessions, and all about as many tokens; a session is never cut. With
// more tasks than sessions, some have none.
SessionShare ShareOfSessions(const std::vector<TokenSession>& sessions, const TaskNumber& task);

// A task of a profile: its place, and what must be the same in all tasks, by name.
struct ProfileTask {
  std::string out;  // the file of the statistics that `join` writes
  TaskNumber number;
  TextParameters work;
};
// Whether the task is done already. kInvalidArgument, naming what differs, if one of other work is
// there, unless `force`.
Result<bool> IsProfileTaskDone(const ProfileTask& task, bool force);
// Writes the statistics, and last the record that says that the task is done.
Status WriteProfileTask(const ProfileTask& task, const Statistics& statistics);
// The directory, "OUT.tasks/00003-of-00016".
std::string ProfileTaskDirectory(const ProfileTask& task);

// The directories of tasks that `inputs` name; empty if none is one.
Result<std::vector<std::string>> FindProfileTasks(const std::vector<std::string>& inputs);
// Writes the statistics of all tasks, which are those of one run, and reports it. kNotFound names
// the tasks that are missing, kMismatch tasks of different work and files that were changed.
Status JoinProfileTasks(const std::vector<std::string>& directories, const SharesToJoin& shares);

}  // namespace moepack::cli
