#include "tools/commands/profile_task.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/format_version.h"
#include "libshard/base/text/record.h"
#include "libshard/base/text/text.h"
#include "libshard/stats/statistics_file.h"
#include "manifest/tasks/find_shares.h"
#include "manifest/tasks/task_record.h"
#include "tools/base/output.h"
#include "tools/options/output_file.h"

namespace moepack::cli {
namespace profile_task {
namespace {

constexpr const char* kRecordFile = "profile-task.json";
// Compressed, as only `join` reads it.
constexpr const char* kShareFile = "statistics.json.zst";
constexpr const char* kFormat = "moepack-profile-task";
constexpr unsigned kMajor = 1;
constexpr uint64_t kMaxRecordBytes = 1u << 20;

constexpr manifest::ShareKind kTasks = {kRecordFile, "", "tasks of a profile",
                                        "tasks of different commands are joined in steps of their "
                                        "own"};

struct Record {
  uint64_t task = 0, tasks = 0;
  TextParameters work;
  std::string sha256;  // of kShareFile
};

constexpr Field<Record> kFields[] = {
    {"task", As<&Record::task, &JsonFields::Unsigned>},
    {"tasks", As<&Record::tasks, &JsonFields::Unsigned>},
    {"work", As<&Record::work, ReadTextParameters, TextParametersToJson>},
    {"sha256", As<&Record::sha256, ReadSha256>},
};

Result<Record> ReadRecordIn(const std::string& directory) {
  const LocalTree tree(directory);
  SHARD_TRY(const std::string text, tree.ReadText(kRecordFile, kMaxRecordBytes));
  const std::string where = tree.NameOf(kRecordFile);
  SHARD_TRY(const Json document, ParseJson(where, text));
  SHARD_CHECK(CheckObject(where, document));
  const JsonFields fields(document, where);
  SHARD_CHECK(CheckFormat(fields, kFormat, kMajor));
  Record record;
  SHARD_CHECK(ReadFields(kFields, fields, record));
  if (record.tasks > 0 && record.tasks <= kMaxTasks && record.task < record.tasks) return record;
  return fields.Wrong("task", "a number below that of all tasks");
}

Result<std::string> DigestOf(const std::string& directory) {
  SHARD_TRY(const ByteSourcePtr file, LocalTree(directory).Open(kShareFile));
  SHARD_TRY(const MappedFile mapped, MappedFile::Map(*file));
  return Sha256Hex(mapped.bytes());
}

Status CheckSameWork(const std::string& where, const TextParameters& wanted,
                     const TextParameters& found, Code code, const std::string& hint) {
  const auto other = FirstDifferentParameter(wanted, found);
  if (!other) return Ok();
  return Error{code,
               Cat(Shown(where), ": ", Shown(other->name), ": expected ", other->wanted, ", found ",
                   other->found),
               hint};
}

struct ReadProfile {
  std::string directory;
  Record record;
};

// By number, each once.
Result<std::map<uint64_t, ReadProfile>> ReadAll(const std::vector<std::string>& directories) {
  std::map<uint64_t, ReadProfile> tasks;
  std::optional<ReadProfile> first;
  for (const std::string& directory : directories) {
    SHARD_TRY(Record record, ReadRecordIn(directory));
    if (!first) first = ReadProfile{directory, record};
    const std::string hint =
        Cat("expected as in ", first->directory,
            ": tasks fit together only if they are of one work on machines that round alike");
    if (record.tasks != first->record.tasks)
      return Error{Code::kMismatch,
                   Cat(Shown(directory), ": tasks: expected ", first->record.tasks, ", found ",
                       record.tasks),
                   hint};
    SHARD_CHECK(CheckSameWork(directory, first->record.work, record.work, Code::kMismatch, hint));
    const auto [same, added] = tasks.try_emplace(record.task, ReadProfile{directory, record});
    if (!added && same->second.record.sha256 != record.sha256)
      return Error{Code::kMismatch,
                   Cat(Shown(directory), ": sha256: expected ", same->second.record.sha256,
                       ", found ", record.sha256),
                   Cat("expected as in ", same->second.directory, ", which is the same task")};
  }
  return tasks;
}

// The statistics of a task, if it had sessions.
Status MergeTask(const ReadProfile& task, std::optional<Statistics>& merged) {
  SHARD_TRY(const std::string digest, DigestOf(task.directory));
  const std::string file = (fs::path(task.directory) / kShareFile).string();
  if (digest != task.record.sha256)
    return Error{Code::kMismatch,
                 Cat(Shown(file), ": sha256: expected ", task.record.sha256, ", found ", digest),
                 "the file is corrupt: run this task again with --force"};
  SHARD_TRY(Statistics statistics, ReadStatistics(file));
  if (!merged) {
    merged = std::move(statistics);
    return Ok();
  }
  return MergeStatistics(file, statistics, *merged);
}

}  // namespace
}  // namespace profile_task

SessionShare ShareOfSessions(const std::vector<TokenSession>& sessions, const TaskNumber& task) {
  uint64_t all = 0;
  for (const TokenSession& session : sessions) all += session.tokens.size();
  // A session belongs to the task in whose stretch of the tokens its middle is.
  const auto task_of = [&](uint64_t middle) {
    return static_cast<uint32_t>(middle * task.count / (2 * std::max<uint64_t>(all, 1)));
  };
  SessionShare share;
  uint64_t before = 0;
  for (size_t i = 0; i < sessions.size(); ++i) {
    const uint64_t own = sessions[i].tokens.size();
    const uint32_t number = task_of(2 * before + own);
    before += own;
    if (number < task.index) share.first = share.last = i + 1;
    if (number == task.index) share.last = i + 1;
  }
  return share;
}

std::string ProfileTaskDirectory(const ProfileTask& task) {
  return (fs::path(manifest::TasksDirectory(task.out)) / manifest::TaskName(task.number)).string();
}

Result<bool> IsProfileTaskDone(const ProfileTask& task, bool force) {
  using namespace profile_task;
  const std::string directory = ProfileTaskDirectory(task);
  SHARD_TRY(const bool there, IsThere(fs::path(directory) / kRecordFile));
  if (!there || force) return false;
  SHARD_TRY(const Record record, ReadRecordIn(directory));
  SHARD_CHECK(CheckSameWork(directory, task.work, record.work, Code::kInvalidArgument,
                            "another task is there: --force writes this one in its place"));
  return true;
}

Status WriteProfileTask(const ProfileTask& task, const Statistics& statistics) {
  using namespace profile_task;
  const std::string directory = ProfileTaskDirectory(task);
  SHARD_TRY(const InsideDirectory files, InsideDirectory::OpenOrMake(directory));
  SHARD_CHECK(files.RemoveFile(kRecordFile));
  SHARD_CHECK(WriteStatistics((fs::path(directory) / kShareFile).string(), statistics));
  Record record{task.number.index, task.number.count, task.work, {}};
  SHARD_TRY(record.sha256, DigestOf(directory));
  Json document = Json::object();
  document["format"] = kFormat;
  document["format_version"] = Cat(kMajor, ".0");
  WriteFields(kFields, record, document);
  return files.WriteText(kRecordFile, WriteJson(document));
}

Result<std::vector<std::string>> FindProfileTasks(const std::vector<std::string>& inputs) {
  using namespace profile_task;
  SHARD_TRY(const std::vector<manifest::FoundShare> shares, manifest::FindShares(inputs, kTasks));
  std::vector<std::string> directories;
  for (const manifest::FoundShare& share : shares) directories.push_back(share.directory);
  return directories;
}

Status JoinProfileTasks(const std::vector<std::string>& directories, const SharesToJoin& shares) {
  using namespace profile_task;
  SHARD_CHECK(CheckStatisticsName(shares.out));
  if (shares.link)
    return Error{Code::kInvalidArgument,
                 "--link has no effect on tasks of a profile: their statistics are merged",
                 "leave it out"};
  SHARD_CHECK(CheckOutputFile(shares.out, {}, shares.join.force || shares.join.dry_run));
  SHARD_TRY(const auto tasks, ReadAll(directories));
  std::set<uint32_t> there;
  for (const auto& [number, task] : tasks) there.insert(static_cast<uint32_t>(number));
  const ReadProfile& first = tasks.begin()->second;
  SHARD_CHECK(
      manifest::CheckAllThere(first.directory, static_cast<uint32_t>(first.record.tasks), there));
  std::optional<Statistics> merged;
  for (const auto& [number, task] : tasks) SHARD_CHECK(MergeTask(task, merged));
  uint64_t bytes = 0;
  if (shares.join.dry_run) {
    bytes = StatisticsBytes(shares.out, *merged).size();
  } else {
    SHARD_TRY(bytes, WriteStatistics(shares.out, *merged, shares.join.force));
  }
  if (shares.json)
    return WriteJsonResult({{"output", shares.out},
                            {"dry_run", shares.join.dry_run},
                            {"tasks", tasks.size()},
                            {"sessions", merged->sessions.size()},
                            {"bytes", bytes}});
  return WriteReport(Cat(shares.join.dry_run ? "would write " : "wrote ", ExactBytes(bytes), " of ",
                         Plural(tasks.size(), "task"), ", ",
                         Plural(merged->sessions.size(), "session"), ", to ", Shown(shares.out),
                         "\n"));
}

}  // namespace moepack::cli
