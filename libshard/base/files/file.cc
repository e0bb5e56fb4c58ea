#include "libshard/base/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/free_name.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/files/temporary_file.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr int kNoDescriptor = -1;

std::string IdentityOf(const struct stat& info) {
  const int64_t modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  return Cat(info.st_dev, " ", info.st_ino, " ", info.st_size, " ", modified_ns);
}

}  // namespace

std::string ErrnoText(int error) {
  if (error == ENOMEM) throw std::bad_alloc();
  return std::generic_category().message(error);
}

// ---- InputFile

// With O_NONBLOCK, opening a pipe instead of a file does not block; it changes nothing for regular
// files.
Result<InputFile> InputFile::Open(const fs::path& path) {
  InputFile file;
  file.name_ = path.string();
  file.fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) return IoError(path, "open", errno);
  struct stat info;
  if (fstat(file.fd_, &info) != 0) return IoError(path, "look it up", errno);
  if (!S_ISREG(info.st_mode)) {
    return Error{Code::kInvalidArgument, Cat(file.name_, ": expected a regular file")};
  }
  file.size_ = static_cast<uint64_t>(info.st_size);
  file.identity_ = IdentityOf(info);
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : name_(std::move(other.name_)),
      identity_(std::move(other.identity_)),
      size_(other.size_),
      fd_(std::exchange(other.fd_, kNoDescriptor)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(identity_, other.identity_);
  std::swap(size_, other.size_);
  std::swap(fd_, other.fd_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

Status InputFile::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  return moepack::ReadAt(fd_, name_, offset, out);
}

Status InputFile::CheckUnchanged() const {
  struct stat by_descriptor;
  struct stat by_path;
  if (fstat(fd_, &by_descriptor) != 0 || stat(name_.c_str(), &by_path) != 0) {
    return IoError(name_, "check that the file is unchanged", errno);
  }
  if (IdentityOf(by_descriptor) == identity_ && IdentityOf(by_path) == identity_) return Ok();
  return ChangedWhileRead(name_);
}

// ---- AtomicFile

Result<AtomicFile> AtomicFile::Create(const fs::path& path, bool replace) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::none) return IoError(path, "look it up", error.value());
  if (type != fs::file_type::not_found && type != fs::file_type::regular) {
    return Error{Code::kInvalidArgument,
                 Cat(path.string(), " is a directory, device or pipe, which is never replaced"),
                 "choose another output"};
  }
  SHARD_TRY(const bool mounted, IsMountPoint(path));
  if (mounted) return CannotReplaceMountedFile(path);
  SHARD_TRY(TemporaryFile temporary, MakeTemporaryFile(AT_FDCWD, path.string(), path));
  AtomicFile file;
  file.path_ = path;
  file.replace_ = replace;
  file.temporary_ = temporary.name;
  file.fd_ = temporary.fd.Release();
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      replace_(other.replace_),
      fd_(std::exchange(other.fd_, kNoDescriptor)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  unlink(temporary_.c_str());  // while the file is locked: afterwards it may be another's
  close(fd_);
}

Status AtomicFile::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return IoError(path_, "write", errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return Ok();
}

// A result that took hours is not lost because something else got its name meanwhile. It does not
// stay under its temporary name, which a later process would remove.
Error AtomicFile::Keep() {
  fs::path kept;
  int renamed = -1;
  errno = EEXIST;
  for (int number = 1; renamed != 0 && errno == EEXIST; ++number) {
    kept = path_;
    kept += Cat(".kept-", number);
    renamed = RenameToFreeName(AT_FDCWD, temporary_.c_str(), AT_FDCWD, kept.c_str());
  }
  close(std::exchange(fd_, kNoDescriptor));  // until now the lock kept it from being removed
  Error error = TakenMeanwhile(path_);
  error.hint += Cat("; what was written is kept as ", (renamed == 0 ? kept : temporary_).string());
  return error;
}

Status AtomicFile::Commit() {
  SHARD_CHECK(FlushToDisk(fd_, path_));
  const char* const from = temporary_.c_str();
  const int renamed = replace_ ? rename(from, path_.c_str())
                               : RenameToFreeName(AT_FDCWD, from, AT_FDCWD, path_.c_str());
  if (renamed != 0 && !replace_ && errno == EEXIST) return Keep();
  if (renamed != 0) return IoError(path_, "rename", errno);
  close(std::exchange(fd_, kNoDescriptor));
  return FlushDirectory(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
}

// ---- Free functions

Result<std::string> ReadTextFile(const fs::path& path, uint64_t limit) {
  SHARD_TRY(const InputFile file, InputFile::Open(path));
  return ReadText(file, limit);
}

Status WriteTextFile(const fs::path& path, std::string_view text, bool replace) {
  SHARD_TRY(AtomicFile file, AtomicFile::Create(path, replace));
  SHARD_CHECK(file.Write(text));
  return file.Commit();
}

Status WriteAt(int fd, const fs::path& path, uint64_t offset, std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written =
        pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return IoError(path, Cat("write at offset ", offset + done), errno);
    done += static_cast<size_t>(written);
  }
  return Ok();
}

Status FlushToDisk(int fd, const fs::path& path) {
  while (fsync(fd) != 0) {
    if (errno != EINTR) return IoError(path, "flush to disk", errno);
  }
  return Ok();
}

Status FlushDirectory(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return IoError(path, "open", errno);
  int result = fsync(fd);
  while (result != 0 && errno == EINTR) result = fsync(fd);
  const int error = errno;
  close(fd);
  // Some file systems cannot flush a directory and return EINVAL; nothing more can be done on them.
  if (result != 0 && error != EINVAL) return IoError(path, "flush to disk", error);
  return Ok();
}

Result<uint64_t> FreeBytes(const fs::path& path) {
  std::error_code ignored;
  fs::path existing = AbsolutePath(path);
  while (!fs::exists(existing, ignored) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  struct statvfs info;
  if (statvfs(existing.c_str(), &info) != 0) return IoError(existing, "free space", errno);
  return uint64_t{info.f_bavail} * info.f_frsize;
}

}  // namespace moepack
