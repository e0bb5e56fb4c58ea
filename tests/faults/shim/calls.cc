// The watched calls, under the names of the C library's functions, which they call in turn.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "tests/faults/shim/clones.h"
#include "tests/faults/shim/decide.h"

namespace {

using namespace faults;

template <class Function>
Function* Next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool Fails(uint32_t kind, const char* call, const Path& path) {
  return DecideFor(kind, call, path) == Fate::kFails;
}

// How many bytes to ask for instead of `bytes`; -1 if the call fails.
ssize_t Granted(uint32_t kind, const char* call, int fd, size_t bytes) {
  const auto all = static_cast<ssize_t>(bytes);
  if (!Watches(kind)) return all;
  const Fate fate = DecideFor(kind, call, PathOf(fd));
  if (fate == Fate::kFails) return -1;
  return fate == Fate::kIsShort ? (all + 1) / 2 : all;
}

// One of two killed writes has written half of its bytes before.
template <class Call>
ssize_t Write(int fd, const void* data, size_t bytes, const Call& call, const off_t* place) {
  if (!Watches(kWrite)) return call(bytes);
  const Fate fate = DecideFor(kWrite, "write", PathOf(fd));
  if (fate == Fate::kFails) return -1;
  const LogLock lock;
  off_t offset = 0;
  if (Logs()) {
    struct stat info = {};
    const bool appends = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
    if (appends) syscall(SYS_fstat, fd, &info);
    offset = place != nullptr ? *place : appends ? info.st_size : lseek(fd, 0, SEEK_CUR);
  }
  const ssize_t done = call(fate == Fate::kIsShort ? (bytes + 1) / 2 : bytes);
  if (fate == Fate::kIsShort) KillIfChosen();
  if (done > 0 && Logs()) {
    const Path path = PathOf(fd);
    Log({"write", path.text, "", static_cast<unsigned long long>(offset), data,
         static_cast<size_t>(done)});
  }
  return done;
}

template <class Call>
int Open(int directory, const char* name, int flags, const Call& call) {
  const bool may_create = (flags & O_CREAT) != 0;
  const uint32_t kinds = may_create ? kOpen | kCreate : kOpen;
  if (!Watches(kinds)) return call();
  const Path path = PathAt(directory, name);
  if (Fails(kinds, "open", path)) return -1;
  const LogLock lock;
  const bool makes = Logs() && may_create && syscall(SYS_faccessat, directory, name, F_OK) != 0;
  const int fd = call();
  if (fd >= 0 && makes) Log({"create", path.text});
  if (fd >= 0 && Logs() && (flags & O_TRUNC) != 0) Log({"truncate", path.text});
  return fd;
}

template <class Call>
int OnName(uint32_t kind, const char* op, int directory, const char* name, const Call& call) {
  if (!Watches(kind)) return call();
  const Path path = PathAt(directory, name);
  if (Fails(kind, op, path)) return -1;
  const LogLock lock;
  const int result = call();
  if (result == 0) Log({op, path.text});
  return result;
}

struct Names {
  int from_directory;
  const char* from;
  int to_directory;
  const char* to;
};
template <class Call>
int OnNames(uint32_t kind, const char* op, const Names& names, const Call& call) {
  if (!Watches(kind)) return call();
  const Path from = PathAt(names.from_directory, names.from);
  const Path to = PathAt(names.to_directory, names.to);
  if (Fails(kind, op, to.text[0] == '\0' ? from : to)) return -1;
  const LogLock lock;
  const int result = call();
  if (result == 0) Log({op, from.text, to.text});
  return result;
}

template <class Call>
int OnDescriptor(uint32_t kind, const char* op, int fd, unsigned long long size, const Call& call) {
  if (!Watches(kind)) return call();
  const Path path = PathOf(fd);
  if (Fails(kind, op, path)) return -1;
  const LogLock lock;
  const int result = call();
  if (result == 0) Log({op, path.text, "", size});
  return result;
}

template <class Call>
int Asked(int directory, const char* name, const Call& call) {
  if (Watches(kStat) && Fails(kStat, "stat", PathAt(directory, name))) return -1;
  return call();
}

}  // namespace

// The name of a function, and the next one of that name.
#define NEXT(function) static auto* const next = Next(&::function, #function)

extern "C" {

int open(const char* name, int flags, ...) {
  NEXT(open);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return Open(AT_FDCWD, name, flags, [&] { return next(name, flags, mode); });
}
int openat(int directory, const char* name, int flags, ...) {
  NEXT(openat);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return Open(directory, name, flags, [&] { return next(directory, name, flags, mode); });
}
ssize_t read(int fd, void* data, size_t bytes) {
  NEXT(read);
  const ssize_t granted = Granted(kRead, "read", fd, bytes);
  return granted < 0 ? -1 : next(fd, data, static_cast<size_t>(granted));
}
ssize_t pread(int fd, void* data, size_t bytes, off_t offset) {
  NEXT(pread);
  const ssize_t granted = Granted(kRead, "read", fd, bytes);
  return granted < 0 ? -1 : next(fd, data, static_cast<size_t>(granted), offset);
}
ssize_t preadv2(int fd, const iovec* parts, int count, off_t offset, int flags) {
  NEXT(preadv2);
  iovec first = count > 0 ? parts[0] : iovec{};
  const ssize_t granted = Granted(kRead, "read", fd, first.iov_len);
  if (granted < 0) return -1;
  if (static_cast<size_t>(granted) == first.iov_len) return next(fd, parts, count, offset, flags);
  first.iov_len = static_cast<size_t>(granted);
  return next(fd, &first, 1, offset, flags);
}
ssize_t write(int fd, const void* data, size_t bytes) {
  NEXT(write);
  return Write(
      fd, data, bytes, [&](size_t some) { return next(fd, data, some); }, nullptr);
}
ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  NEXT(pwrite);
  return Write(
      fd, data, bytes, [&](size_t some) { return next(fd, data, some, offset); }, &offset);
}
int fsync(int fd) {
  NEXT(fsync);
  return OnDescriptor(kFlush, "fsync", fd, 0, [&] { return next(fd); });
}
int fdatasync(int fd) {
  NEXT(fdatasync);
  return OnDescriptor(kFlush, "fsync", fd, 0, [&] { return next(fd); });
}
int ftruncate(int fd, off_t size) noexcept {
  NEXT(ftruncate);
  return OnDescriptor(kTruncate, "truncate", fd, static_cast<unsigned long long>(size),
                      [&] { return next(fd, size); });
}
int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  NEXT(fallocate);
  if (Logs()) {  // how it changes a size is not recorded in the log
    errno = EOPNOTSUPP;
    return -1;
  }
  return OnDescriptor(kTruncate, "fallocate", fd, 0, [&] { return next(fd, mode, offset, bytes); });
}
int rename(const char* from, const char* to) noexcept {
  NEXT(rename);
  return OnNames(kRename, "rename", {AT_FDCWD, from, AT_FDCWD, to}, [&] { return next(from, to); });
}
int renameat(int folder, const char* from, int to_folder, const char* to) noexcept {
  NEXT(renameat);
  return OnNames(kRename, "rename", {folder, from, to_folder, to},
                 [&] { return next(folder, from, to_folder, to); });
}
int linkat(int folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  NEXT(linkat);
  return OnNames(kLink, "link", {folder, from, to_folder, to},
                 [&] { return next(folder, from, to_folder, to, flags); });
}
int symlinkat(const char* text, int folder, const char* name) noexcept {
  NEXT(symlinkat);
  const Path path = PathAt(folder, name);
  if (Watches(kLink) && Fails(kLink, "symlink", path)) return -1;
  const int result = next(text, folder, name);
  if (result == 0) Log({"symlink", text, path.text});
  return result;
}
int unlink(const char* name) noexcept {
  NEXT(unlink);
  return OnName(kUnlink, "unlink", AT_FDCWD, name, [&] { return next(name); });
}
int unlinkat(int folder, const char* name, int flags) noexcept {
  NEXT(unlinkat);
  return OnName(kUnlink, (flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", folder, name,
                [&] { return next(folder, name, flags); });
}
int mkdir(const char* name, mode_t mode) noexcept {
  NEXT(mkdir);
  return OnName(kMakeDirectory, "mkdir", AT_FDCWD, name, [&] { return next(name, mode); });
}
int mkdirat(int folder, const char* name, mode_t mode) noexcept {
  NEXT(mkdirat);
  return OnName(kMakeDirectory, "mkdir", folder, name, [&] { return next(folder, name, mode); });
}
void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  NEXT(mmap);
  const Path path = fd >= 0 && Watches(kMap) ? PathOf(fd) : Path();
  if (Decide(kMap, "mmap", path.text) == Fate::kFails) return MAP_FAILED;
  return next(address, bytes, protection, flags, fd, offset);
}
int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list rest;
  va_start(rest, request);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  if (request == FICLONE || request == FICLONERANGE) {
    if (Watches(kClone) && Fails(kClone, "clone", PathOf(fd))) return -1;
    if (EmulatesClones()) return CopyAsClone(fd, request, argument);
    if (Logs()) {  // so that every byte goes through a write
      errno = EOPNOTSUPP;
      return -1;
    }
  }
  return static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
}
ssize_t copy_file_range(int from, off_t* at, int to, off_t* to_at, size_t bytes, unsigned flags) {
  NEXT(copy_file_range);
  if (Watches(kClone) && Fails(kClone, "copy_file_range", PathOf(to))) return -1;
  if (Logs()) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return next(from, at, to, to_at, bytes, flags);
}
int fstatat(int folder, const char* name, struct stat* out, int flags) noexcept {
  return Asked(folder, name,
               [&] { return static_cast<int>(syscall(SYS_newfstatat, folder, name, out, flags)); });
}
int stat(const char* name, struct stat* out) noexcept { return fstatat(AT_FDCWD, name, out, 0); }
int lstat(const char* name, struct stat* out) noexcept {
  return fstatat(AT_FDCWD, name, out, AT_SYMLINK_NOFOLLOW);
}
int fstat(int fd, struct stat* out) noexcept {
  if (Watches(kStat) && Fails(kStat, "fstat", PathOf(fd))) return -1;
  return static_cast<int>(syscall(SYS_fstat, fd, out));
}
int statvfs(const char* name, struct statvfs* out) noexcept {
  NEXT(statvfs);
  return Asked(AT_FDCWD, name, [&] { return next(name, out); });
}
DIR* fdopendir(int fd) {
  NEXT(fdopendir);
  return Watches(kStat) && Fails(kStat, "opendir", PathOf(fd)) ? nullptr : next(fd);
}
dirent* readdir(DIR* stream) {
  NEXT(readdir);
  return Watches(kStat) && Fails(kStat, "readdir", PathOf(dirfd(stream))) ? nullptr : next(stream);
}
// moepack calls syscall(2) itself only for renameat2.
long syscall(long number, ...) noexcept {
  va_list rest;
  va_start(rest, number);
  long a[6];
  for (long& argument : a) argument = va_arg(rest, long);
  va_end(rest);
  static auto* const next = Next(static_cast<long (*)(long, ...)>(nullptr), "syscall");
  const auto call = [&] { return next(number, a[0], a[1], a[2], a[3], a[4], a[5]); };
  if (number != SYS_renameat2) return call();
  const Names names = {static_cast<int>(a[0]), reinterpret_cast<const char*>(a[1]),
                       static_cast<int>(a[2]), reinterpret_cast<const char*>(a[3])};
  return OnNames(kRename, "rename", names, [&] { return static_cast<int>(call()); });
}
int flock(int fd, int operation) noexcept {
  NEXT(flock);
  const Fate fate = Watches(kLock) ? DecideFor(kLock, "flock", PathOf(fd)) : Fate::kHappens;
  if (fate == Fate::kHappens) return next(fd, operation);
  return fate == Fate::kFails ? -1 : 0;
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) {
  NEXT(pthread_create);
  if (Decide(kThread, "pthread_create", "") == Fate::kFails) return EAGAIN;
  return next(thread, attributes, body, argument);
}

}  // extern "C"
