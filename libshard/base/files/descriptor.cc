#include "libshard/base/files/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>

#include "libshard/base/files/file.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

bool MayUse(const fs::path& path, int mode) {
  return faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0 || errno != EACCES;
}

// The outermost directory on the way to `path` that may not be entered; otherwise what the path
// itself lacks.
std::string MissingPermission(const fs::path& path) {
  const fs::path whole = AbsolutePath(path);
  fs::path outer;
  for (const fs::path& part : whole) {
    if (!outer.empty() && !MayUse(outer, X_OK)) {
      return Cat("the directory ", outer.string(), " cannot be entered: no search permission");
    }
    outer /= part;
  }
  if (!MayUse(whole, F_OK)) return "";
  if (faccessat(AT_FDCWD, whole.c_str(), F_OK, AT_EACCESS) != 0) {
    const fs::path parent = whole.parent_path();
    return MayUse(parent, W_OK)
               ? ""
               : Cat("the directory ", parent.string(), " cannot be written: no write permission");
  }
  if (!MayUse(whole, R_OK)) return Cat(whole.string(), " cannot be read: no read permission");
  if (!MayUse(whole, W_OK)) return Cat(whole.string(), " cannot be written: no write permission");
  return "";
}

std::string HintFor(int error) {
  if (error == ENOSPC || error == EDQUOT) return "free some space and run the command again";
  if (error == EFBIG) {
    return "the limit on the size of files is too low (ulimit -f), or the file system cannot hold "
           "files of this size";
  }
  return "";
}

// No value if nothing is there.
Result<std::optional<struct stat>> StatusOf(const fs::path& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0) return std::optional(info);
  if (errno != ENOENT && errno != ENOTDIR) return IoError(path, "look it up", errno);
  return std::optional<struct stat>();
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Error IoError(const fs::path& path, std::string_view action, int error) {
  const Code code = error == ENOENT || error == ENOTDIR ? Code::kNotFound : Code::kIo;
  std::string reason = ErrnoText(error);
  if (error == EACCES) {
    const std::string missing = MissingPermission(path);
    if (!missing.empty()) reason += ": " + missing;
  }
  return Error{code, Cat(path.string(), ": ", action, ": ", reason), HintFor(error)};
}

Result<bool> IsThere(const fs::path& path) {
  SHARD_TRY(const auto there, StatusOf(path));
  if (there) return true;
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return false;
  std::error_code ignored;
  return Error{Code::kNotFound,
               Cat(path.string(), ": expected a file, found a link to nothing: ",
                   Quoted(fs::read_symlink(path, ignored).string())),
               "finish the download, or remove the link"};
}

Result<bool> IsDirectory(const fs::path& path) {
  SHARD_TRY(const auto info, StatusOf(path));
  return info && S_ISDIR(info->st_mode);
}

Result<bool> IsTaken(const fs::path& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) return IoError(path, "look it up", errno);
  return false;
}

Result<bool> IsMountPoint(const fs::path& path) {
  struct statx info = {};
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
  if (statx(AT_FDCWD, path.c_str(), kFlags, STATX_TYPE, &info) == 0) {
    if ((info.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0)
      return (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  } else if (errno == ENOMEM) {
    return IoError(path, "look it up", errno);
  }
  // Older kernels do not say it. Of directories, only mounts are on another device than what holds
  // them; on overlayfs files may be, too.
  struct stat here, above;
  const fs::path parent = AbsolutePath(path).parent_path();
  if (lstat(path.c_str(), &here) != 0 || !S_ISDIR(here.st_mode)) return false;
  return stat(parent.c_str(), &above) == 0 && here.st_dev != above.st_dev;
}

Error CannotReplaceMountedFile(const fs::path& path) {
  return {Code::kInvalidArgument, Cat(path.string(), " is a mount point, which cannot be replaced"),
          "mount the directory that is to hold it, or choose another output"};
}

Result<bool> IsSameFile(const fs::path& one, const fs::path& other) {
  // An input may be a list of token ids or an address, which is longer than the name of any file.
  struct stat info;
  if (stat(one.c_str(), &info) != 0 && errno == ENAMETOOLONG) return false;
  SHARD_TRY(const auto first, StatusOf(one));
  if (!first) return false;
  SHARD_TRY(const auto second, StatusOf(other));
  return second && first->st_dev == second->st_dev && first->st_ino == second->st_ino;
}

Status ReadAt(int fd, const fs::path& path, uint64_t offset, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return IoError(path, Cat("read at offset ", offset + done), errno);
    if (got == 0) return EndsEarly(path.string(), offset, out.size(), done);
    done += static_cast<size_t>(got);
  }
  return Ok();
}

}  // namespace moepack
