#include "tools/options/output_file.h"

#include <map>

#include "libshard/base/files/beside_weights.h"
#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/text/text.h"
#include "libshard/format/gguf_set.h"
#include "libshard/remote/scheme.h"
#include "manifest/write/output_path.h"

namespace moepack::cli {
namespace {

Error RefusedOutput(const std::string& out, const char* why, const char* hint) {
  return {Code::kInvalidArgument, Cat(out, " ", why), hint};
}

using Resolve = fs::path (*)(const fs::path&, std::error_code&);

Result<fs::path> Resolved(const std::string& path, Resolve resolve) {
  std::error_code error;
  fs::path whole = resolve(path, error);
  if (error) return IoError(path, "follow the path", error.value());
  return whole;
}

// Where a directory is, and where it is while it is written.
Result<std::vector<fs::path>> PlacesOf(const std::string& directory) {
  fs::path path = fs::path(directory).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  SHARD_TRY(const fs::path whole, Resolved(path.string(), WeaklyCanonicalPath));
  return std::vector<fs::path>{whole, fs::path(whole.string() + kPartialMark)};
}

}  // namespace

Error OutputIsInput(const std::string& out) {
  return RefusedOutput(out, "is also an input",
                       "choose another output; inputs are never overwritten");
}

Status CheckNoInput(const std::string& out, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    if (input.empty()) continue;
    SHARD_TRY(const bool same, IsSameFile(input, out));
    if (same || input == out) return OutputIsInput(out);
  }
  return Ok();
}

Status CheckOutputFile(const std::string& out, const std::vector<std::string>& inputs, bool force) {
  SHARD_CHECK(CheckNoInput(out, inputs));
  SHARD_TRY(const bool directory, IsDirectory(out));
  if (directory) return RefusedOutput(out, "is a directory", "the option takes the name of a file");
  const fs::path folder = fs::path(out).parent_path();
  SHARD_TRY(const bool holds, IsDirectory(folder.empty() ? "." : folder));
  if (!holds)
    return RefusedOutput(out, "lies in a directory that does not exist",
                         "make the directory first");
  SHARD_TRY(const bool mounted, IsMountPoint(out));
  if (mounted) return CannotReplaceMountedFile(out);
  SHARD_TRY(const bool taken, IsTaken(out));
  if (force || !taken) return Ok();
  return RefusedOutput(out, "already exists", "--force replaces it, and -o names another file");
}

Status CheckStatisticsName(const std::string& out) {
  if (out.ends_with(".json") || out.ends_with(".json.zst")) return Ok();
  return Error{
      Code::kInvalidArgument,
      Cat("-o: expected a name that ends in .json or .json.zst, or -, found ", Quoted(out))};
}

void AddModelFiles(const std::string& source, std::vector<std::string>& files) {
  std::error_code ignored;
  if (remote::IsAddress(source) || fs::is_directory(source, ignored)) return;
  const fs::path path = source;
  for (const std::string& part : GgufPartsOf(path.filename().string()))
    files.push_back(path.parent_path() / part);
  for (const BesideWeights& beside : kBesideWeights)
    files.push_back(path.parent_path() / beside.name);
}

Status CheckModelOutput(const std::string& out, const std::string& source,
                        std::vector<std::string> inputs, bool force) {
  AddModelFiles(source, inputs);
  SHARD_CHECK(CheckOutputFile(out, inputs, force));
  return remote::IsAddress(source) ? Ok() : manifest::CheckOutputApart(out, source);
}

Status CheckHoldsNoInput(const std::string& out, const std::vector<std::string>& inputs) {
  std::vector<fs::path> named;
  for (const std::string& input : inputs) {
    if (!input.empty()) named.emplace_back(input);
  }
  return manifest::CheckHoldsNone(out, named);
}

Status CheckFilesDiffer(const std::vector<NamedOutput>& files) {
  std::map<fs::path, const char*> options;  // by the entry that they name
  for (const NamedOutput& file : files) {
    SHARD_TRY(const fs::path entry, Resolved(file.path, EntryPath));
    const auto [other, added] = options.emplace(entry, file.option);
    if (added) continue;
    return Error{Code::kInvalidArgument,
                 Cat(file.path, " is ", other->second, " and ", file.option), "choose two names"};
  }
  return Ok();
}

Status CheckDirectoriesApart(const NamedOutput& one, const NamedOutput& other) {
  SHARD_TRY(const std::vector<fs::path> places, PlacesOf(one.path));
  SHARD_TRY(const std::vector<fs::path> others, PlacesOf(other.path));
  for (const fs::path& place : places) {
    for (const fs::path& another : others) {
      if (!HoldsPath(place, another) && !HoldsPath(another, place)) continue;
      return Error{Code::kInvalidArgument,
                   Cat(one.option, " and ", other.option,
                       ": expected two directories, none inside the other, found ", one.path,
                       " and ", other.path),
                   "choose two directories beside each other"};
    }
  }
  return Ok();
}

}  // namespace moepack::cli
