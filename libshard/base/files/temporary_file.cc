#include "libshard/base/files/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "libshard/base/files/directory_names.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr std::string_view kTemporaryMark = ".tmp-";
constexpr int kMakeAttempts = 100;

bool TakeLockOf(int fd) {
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

// Whether a second opening is granted the lock that the first one has: such locks say nothing.
bool IsGrantedToAll(int directory, const std::string& name) {
  const Descriptor again(openat(directory, name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  return !again.valid() || TakeLockOf(again.get());
}

// Removes the file if nobody has its lock. False if it stays.
bool RemoveIfLeft(int directory, const std::string& name) {
  constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const Descriptor fd(openat(directory, name.c_str(), kFlags));
  struct stat open, by_name;
  if (!fd.valid() || fstat(fd.get(), &open) != 0 || !S_ISREG(open.st_mode)) return false;
  if (!TakeLockOf(fd.get()) || IsGrantedToAll(directory, name)) return false;
  const bool same = fstatat(directory, name.c_str(), &by_name, AT_SYMLINK_NOFOLLOW) == 0 &&
                    by_name.st_ino == open.st_ino && by_name.st_dev == open.st_dev;
  return same && unlinkat(directory, name.c_str(), 0) == 0;
}

// Cleaning up is no part of the run: what cannot be listed or removed stays.
void RemoveLeftFiles(int directory, const std::string& name) {
  const size_t slash = name.rfind('/');
  const std::string folder = slash == name.npos ? "." : name.substr(0, slash + 1);
  const std::string last = slash == name.npos ? name : name.substr(slash + 1);
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  const Descriptor inside(openat(directory, folder.c_str(), kFlags));
  const auto names = NamesIn(Descriptor(openat(directory, folder.c_str(), kFlags)), folder);
  if (!inside.valid() || !names) return;
  for (const std::string& one : *names) {
    if (TemporaryOf(one) == last) (void)RemoveIfLeft(inside.get(), one);
  }
}

// No value if somebody else has the name, or removed the file before it was locked.
Result<Descriptor> TryMake(int directory, const std::string& name,
                           const std::filesystem::path& shown, mode_t mode) {
  // What has this name is not written to: it may be a link that somebody put in the way.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  Descriptor fd(openat(directory, name.c_str(), kFlags, mode));
  if (!fd.valid() && errno == EEXIST) return Descriptor();
  if (!fd.valid()) return IoError(shown, "create", errno);
  if (!TakeLockOf(fd.get())) {
    if (errno == EWOULDBLOCK) return Descriptor();  // somebody takes it for one that was left
    return fd;                                      // there are no locks
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return IoError(shown, "look it up", errno);
  return info.st_nlink > 0 ? std::move(fd) : Descriptor();
}

}  // namespace

Result<TemporaryFile> MakeTemporaryFile(int directory, const std::string& name,
                                        const std::filesystem::path& shown, mode_t mode) {
  RemoveLeftFiles(directory, name);
  std::string temporary = Cat(name, kTemporaryMark, getpid());
  for (int attempt = 0; attempt < kMakeAttempts; ++attempt) {
    SHARD_TRY(Descriptor fd, TryMake(directory, temporary, shown, mode));
    if (fd.valid()) return TemporaryFile{std::move(fd), std::move(temporary)};
    temporary = Cat(name, kTemporaryMark, getpid(), attempt);
  }
  return Error{
      Code::kIo, Cat(shown.string(), ": create: every temporary name is in use"),
      Cat("remove the files beside it whose names end in ", kTemporaryMark, " and a number")};
}

std::string_view TemporaryOf(std::string_view name) {
  const size_t at = name.rfind(kTemporaryMark);
  if (at == name.npos || !ParseUint(name.substr(at + kTemporaryMark.size()))) return {};
  return name.substr(0, at);
}

}  // namespace moepack
