#include "libshard/base/files/move_set.h"

#include <fcntl.h>

#include "libshard/base/files/free_name.h"
#include "libshard/base/files/same_bytes.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using Kind = InsideDirectory::Kind;

// Whether `to` has this file already, with the same bytes, which are on the disk then.
Result<bool> IsThere(const InsideDirectory& from, const InsideDirectory& to,
                     const std::string& name) {
  SHARD_TRY(const Kind kind, to.KindOf(name));
  if (kind == Kind::kNothing) return false;
  bool same = false;
  if (kind == Kind::kFile) {
    SHARD_TRY(same, HaveSameBytes(from, to, name));
  }
  const fs::path path = to.path() / name;
  if (!same) return TakenMeanwhile(path);
  SHARD_TRY(const Descriptor fd, to.OpenFile(name, O_RDONLY));
  SHARD_CHECK(FlushToDisk(fd.get(), path));
  return true;
}

}  // namespace

Status CompleteSet(const InsideDirectory& from, const InsideDirectory& to,
                   const std::vector<std::string>& names) {
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    SHARD_TRY(const bool there, IsThere(from, to, name));
    if (!there) missing.push_back(name);
  }
  if (missing.size() < names.size()) SHARD_CHECK(to.Flush());
  for (auto name = missing.rbegin(); name != missing.rend(); ++name) {
    SHARD_CHECK(from.Move(*name, to, *name, false));
  }
  return Ok();
}

Status ReplaceSet(const InsideDirectory& from, const InsideDirectory& to,
                  const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    SHARD_TRY(const Kind kind, to.KindOf(name));
    if (kind != Kind::kDirectory) continue;
    return Error{Code::kInvalidArgument, Cat((to.path() / name).string(), " is a directory"),
                 "move it away"};
  }
  if (names.size() > 1) {
    SHARD_CHECK(to.RemoveFile(names.front()));
    SHARD_CHECK(to.Flush());
  }
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    SHARD_CHECK(from.Move(*name, to, *name, true));
  }
  return Ok();
}

}  // namespace moepack
