#include <algorithm>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/text/text.h"
#include "manifest/tasks/find_shares.h"
#include "manifest/tasks/task_join.h"
#include "manifest/tasks/task_record.h"

namespace moepack::manifest {
namespace {

namespace fs = moepack::fs;

constexpr ShareKind kTasks = {
    kTaskFile, "", "tasks",
    "tasks (of --task) and distributions (of --only) are joined in steps of their own"};

// "00003-of-00016", as written by TaskName.
bool IsTaskName(std::string_view name) {
  const std::vector<std::string> parts = Split(name, '-');
  return parts.size() == 3 && parts[1] == "of" && ParseUint(parts[0]) && ParseUint(parts[2]);
}

struct Found {
  bool holds_tasks = false;  // perhaps none of them is done
  std::vector<std::string> done;
};

Result<Found> FindIn(const std::string& input) {
  Found found;
  const fs::path directory(input);
  SHARD_TRY(const bool there, IsThere(directory));
  if (!there) {
    return Error{Code::kNotFound,
                 Cat(input, ": expected tasks or a distribution, found no such directory")};
  }
  SHARD_TRY(const bool task, IsThere(directory / kTaskFile));
  if (task) return Found{true, {input}};
  SHARD_TRY(const bool distribution, IsThere(directory / kManifestFile));
  SHARD_TRY(const bool is_directory, IsDirectory(directory));
  if (distribution || !is_directory) return found;
  SHARD_TRY(const InsideDirectory inside, InsideDirectory::Open(directory));
  SHARD_TRY(const std::vector<InsideDirectory::Entry> entries, inside.List());
  for (const InsideDirectory::Entry& entry : entries) {
    // ".partial", or ".partial-<process>" where there are no locks.
    const std::string_view name = entry.name;
    if (!IsTaskName(name.substr(0, name.find(".partial")))) continue;
    SHARD_TRY(const bool may_be_task, IsDirectory(directory / entry.name));  // or a link to one
    if (!may_be_task) continue;
    found.holds_tasks = true;
    SHARD_TRY(const bool done, IsThere(directory / entry.name / kTaskFile));
    if (done) found.done.push_back((directory / entry.name).string());
  }
  return found;
}

}  // namespace

Result<std::vector<std::string>> FindTasks(const std::vector<std::string>& inputs) {
  std::vector<std::string> tasks;
  std::string with, without;
  for (const std::string& input : inputs) {
    SHARD_TRY(const Found found, FindIn(input));
    (found.holds_tasks ? with : without) = input;
    tasks.insert(tasks.end(), found.done.begin(), found.done.end());
  }
  if (with.empty()) return tasks;
  if (!without.empty()) return MixedInputs(without, with, kTasks);
  if (!tasks.empty()) return tasks;
  return Error{Code::kNotFound, Cat(with, ": expected tasks that are done, found none"),
               "what a task writes is in a directory with .partial in its name until it is done"};
}

}  // namespace moepack::manifest
