#include "libshard/base/files/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// Lustre without `flock` says ENOSYS, NFS without a lock server ENOLCK.
bool MeansNoLocks(int error) { return error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK; }

// "node7-4026531836-": containers of one machine may share its name, but not their processes.
std::string NamePrefix() {
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  struct stat space;
  const bool known = stat("/proc/self/ns/pid", &space) == 0;
  std::string name;
  for (const char c : std::string_view(host.data())) name += c == '/' ? '_' : c;
  return Cat(name, "-", known ? static_cast<uint64_t>(space.st_ino) : 0, "-");
}

}  // namespace

Result<FileLock> TakeLock(const InsideDirectory& directory, const std::string& name,
                          const Descriptor& file) {
  const auto take = [](const Descriptor& fd) { return flock(fd.get(), LOCK_EX | LOCK_NB) == 0; };
  if (!take(file)) {
    if (errno == EWOULDBLOCK) return FileLock::kHeld;
    if (MeansNoLocks(errno)) return FileLock::kNone;
    return IoError(directory.path() / name, "lock", errno);
  }
  // A second opening is refused what the first one has.
  SHARD_TRY(const Descriptor again, directory.OpenFile(name, O_RDWR));
  struct stat first, second;
  if (fstat(file.get(), &first) != 0 || fstat(again.get(), &second) != 0)
    return IoError(directory.path() / name, "look it up", errno);
  return first.st_ino == second.st_ino && take(again) ? FileLock::kNone : FileLock::kTaken;
}

Result<FileLock> TakeLock(const InsideDirectory& directory) {
  if (flock(directory.descriptor(), LOCK_EX | LOCK_NB) == 0) return FileLock::kTaken;
  if (errno == EWOULDBLOCK) return FileLock::kHeld;
  if (errno == EBADF || MeansNoLocks(errno)) return FileLock::kNone;
  return IoError(directory.path(), "lock", errno);
}

std::string ProcessName() { return Cat(NamePrefix(), getpid()); }

bool IsEndedProcess(const std::string& name) {
  const std::string prefix = NamePrefix();
  if (!name.starts_with(prefix)) return false;
  const auto number = ParseUint(std::string_view(name).substr(prefix.size()));
  return number && *number > 0 && *number <= 0x7fffffff &&
         kill(static_cast<pid_t>(*number), 0) != 0 && errno == ESRCH;
}

}  // namespace moepack
