#include "libshard/base/files/free_name.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "libshard/base/text/text.h"

namespace moepack {

int RenameToFreeName(int from, const char* name, int to, const char* new_name) {
  if (syscall(SYS_renameat2, from, name, to, new_name, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  // The file system cannot do it in one step.
  struct stat info;
  if (fstatat(to, new_name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
    errno = EEXIST;
    return -1;
  }
  if (errno != ENOENT) return -1;
  return renameat(from, name, to, new_name);
}

Error TakenMeanwhile(const std::filesystem::path& path) {
  return {Code::kInvalidArgument,
          Cat(path.string(), " already exists, and is not what this run wrote"),
          "move it away, or replace it with --force"};
}

}  // namespace moepack
