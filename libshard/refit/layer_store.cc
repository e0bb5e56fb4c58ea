#include "libshard/refit/layer_store.h"

#include <vector>

#include "libshard/base/files/file_lock.h"
#include "libshard/base/files/publish_inside.h"

namespace moepack {

Status LockLayerStore(const InsideDirectory& files) {
  SHARD_TRY(const FileLock lock, TakeLock(files));
  if (lock != FileLock::kHeld) return Ok();
  return Error{Code::kIo, Cat(Shown(files.path().string()), ": another process is writing it"),
               "wait for it, or name another directory"};
}

Status CheckHoldsNothingElse(const InsideDirectory& files, const char* record_file,
                             const char* what) {
  SHARD_TRY(const std::vector<InsideDirectory::Entry> entries, ListOutput(files));
  for (const InsideDirectory::Entry& entry : entries) {
    if (entry.name.starts_with(Cat(record_file, ".tmp-"))) continue;
    return Error{Code::kInvalidArgument,
                 Cat(Shown(files.path().string()), ": expected ", what,
                     " or an empty directory, found ", Quoted(entry.name)),
                 "name another directory"};
  }
  return Ok();
}

}  // namespace moepack
