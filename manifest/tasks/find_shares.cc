#include "manifest/tasks/find_shares.h"

#include <algorithm>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/directory_names.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/text/text.h"
#include "manifest/tasks/task_record.h"

namespace moepack::manifest {
namespace find_shares {
namespace {

namespace fs = moepack::fs;

constexpr size_t kNamedTasks = 8;

Status FindInside(const std::string& input, const ShareKind& kind, std::vector<FoundShare>& found) {
  SHARD_TRY(const InsideDirectory inside, InsideDirectory::Open(input));
  SHARD_TRY(const std::vector<InsideDirectory::Entry> entries, inside.List());
  for (const InsideDirectory::Entry& entry : entries) {
    if (!entry.name.ends_with(kind.suffix)) continue;
    const fs::path directory = fs::path(input) / entry.name;
    SHARD_TRY(const bool share, IsThere(directory / kind.record));
    if (share) found.push_back({directory.string(), false});
  }
  return Ok();
}

// "3, 7 and 9", or the first few and how many more.
std::string NumbersText(const std::vector<uint32_t>& numbers) {
  const size_t named = std::min(numbers.size(), kNamedTasks);
  std::vector<std::string> words;
  for (size_t i = 0; i < named; ++i) words.push_back(Cat(numbers[i]));
  if (named < numbers.size())
    return Cat(moepack::Join(words, ", "), " and ", numbers.size() - named, " more");
  if (named == 1) return words[0];
  const std::string last = words.back();
  words.pop_back();
  return Cat(moepack::Join(words, ", "), " and ", last);
}

// The names of tasks that a process has begun; it may have a directory of its own
// (".partial-<process>").
std::set<std::string> BegunIn(const fs::path& directory) {
  std::set<std::string> names;
  const Result<std::vector<std::string>> there = NamesIn(directory);
  if (!there) return names;
  for (const std::string& name : *there) {
    const size_t partial = name.find(".partial");
    if (partial != name.npos) names.insert(name.substr(0, partial));
  }
  return names;
}

}  // namespace
}  // namespace find_shares

Error MixedInputs(const std::string& without, const std::string& with, const ShareKind& kind) {
  return {Code::kInvalidArgument,
          Cat(without, ": expected ", kind.what, ", as in ", with, ", found none"), kind.hint};
}

Result<std::vector<FoundShare>> FindShares(const std::vector<std::string>& inputs,
                                           const ShareKind& kind) {
  std::vector<FoundShare> found;
  std::string with, without;
  for (const std::string& input : inputs) {
    const size_t before = found.size();
    SHARD_TRY(const bool share, IsThere(fs::path(input) / kind.record));
    SHARD_TRY(const bool directory, IsDirectory(input));
    if (share) {
      found.push_back({input, true});
    } else if (directory) {
      SHARD_CHECK(find_shares::FindInside(input, kind, found));
    }
    (found.size() > before ? with : without) = input;
  }
  if (with.empty() || without.empty()) return found;
  return MixedInputs(without, with, kind);
}

Status CheckAllThere(const std::string& directory, uint32_t count,
                     const std::set<uint32_t>& there) {
  using namespace find_shares;
  std::vector<uint32_t> missing, begun;
  fs::path beside = fs::path(directory).lexically_normal().parent_path();
  if (beside.empty()) beside = ".";
  const std::set<std::string> begun_names = BegunIn(beside);
  for (uint32_t i = 0; i < count; ++i) {
    if (there.contains(i)) continue;
    missing.push_back(i);
    if (begun_names.contains(TaskName({i, count}))) begun.push_back(i);
  }
  if (missing.empty()) return Ok();
  std::string message =
      Cat(beside.string(), ": tasks: expected ", count, ", found ", there.size(), ": ",
          NumbersText(missing), missing.size() == 1 ? " is missing" : " are missing");
  if (!begun.empty()) message += Cat(" (begun and not finished: ", NumbersText(begun), ")");
  return Error{Code::kNotFound, std::move(message),
               Cat("run what is missing with the command of the others and --task ", missing[0],
                   "/", count, missing.size() == 1 ? "" : ", and so on")};
}

}  // namespace moepack::manifest
