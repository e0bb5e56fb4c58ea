#include "manifest/registry/transfer/free_space.h"

#include <sys/stat.h>

#include "libshard/base/files/file.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/text/text.h"

namespace moepack::registry {

std::string MountOf(const fs::path& path) {
  std::error_code error;
  fs::path at = WeaklyCanonicalPath(path, error);
  if (error) at = AbsolutePath(path);
  while (!fs::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  struct stat here;
  struct stat above;
  while (at.has_relative_path() && stat(at.c_str(), &here) == 0 &&
         stat(at.parent_path().c_str(), &above) == 0 && here.st_dev == above.st_dev) {
    at = at.parent_path();
  }
  return at.string();
}

Error NotEnoughSpace(const fs::path& path, uint64_t needed, uint64_t free, uint64_t there) {
  std::string message = Cat(path.string(), ": free space: expected ", FormatBytes(needed),
                            ", found ", FormatBytes(free), " on ", Shown(MountOf(path)));
  if (there > 0) message += Cat("; ", FormatBytes(there), " are already there");
  return {Code::kIo, std::move(message),
          "free some space and run the command again: it resumes from what is there"};
}

Status CheckFreeSpace(const fs::path& path, uint64_t needed, uint64_t there) {
  SHARD_TRY(const uint64_t free, FreeBytes(path));
  if (needed <= free) return Ok();
  return NotEnoughSpace(path, needed, free, there);
}

}  // namespace moepack::registry
