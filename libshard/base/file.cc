#include "libshard/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "libshard/base/descriptor.h"
#include "libshard/base/not_fetched.h"
#include "libshard/base/text.h"

namespace shard {
namespace {

constexpr int kNoDescriptor = -1;

FileIdentity IdentityOf(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size = static_cast<uint64_t>(info.st_size),
          .modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

struct OpenedFile {
  int fd;
  FileIdentity identity;
};

// O_NONBLOCK keeps a pipe in the place of a file from blocking the open; it changes nothing for
// regular files.
Result<OpenedFile> OpenForReading(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return IoError(path, "open", errno);
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return Error{Code::kInvalidArgument, Cat(path.string(), ": expected a regular file")};
  }
  return OpenedFile{fd, IdentityOf(info)};
}

}  // namespace

std::string ErrnoText(int error) { return std::generic_category().message(error); }

// ---- InputFile

Result<InputFile> InputFile::Open(const fs::path& path) {
  SHARD_TRY(const OpenedFile opened, OpenForReading(path));
  InputFile file;
  file.path_ = path;
  file.fd_ = opened.fd;
  file.identity_ = opened.identity;
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, kNoDescriptor)),
      identity_(other.identity_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(identity_, other.identity_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

Status InputFile::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  return shard::ReadAt(fd_, path_, offset, out);
}

Status InputFile::CheckUnchanged() const {
  struct stat by_descriptor;
  struct stat by_path;
  if (fstat(fd_, &by_descriptor) != 0 || stat(path_.c_str(), &by_path) != 0) {
    return IoError(path_, "check that the file is unchanged", errno);
  }
  if (IdentityOf(by_descriptor) == identity_ && IdentityOf(by_path) == identity_) return Ok();
  return Error{Code::kCorrupt, Cat(path_.string(), ": the file was changed while it was read"),
               "wait until whatever writes it (a download?) is done, then run the command again"};
}

// ---- AtomicFile

Result<AtomicFile> AtomicFile::Create(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::none) return IoError(path, "look it up", error.value());
  if (type != fs::file_type::not_found && type != fs::file_type::regular) {
    return Error{Code::kInvalidArgument,
                 Cat(path.string(), " is a directory, device or pipe, which is never replaced"),
                 "choose another output"};
  }
  AtomicFile file;
  file.path_ = path;
  file.temporary_ = path;
  file.temporary_ += Cat(".tmp-", getpid());
  // What is there was left by a process that had the same number, or is a link that somebody put
  // in the way; it is not written to.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  file.fd_ = open(file.temporary_.c_str(), kFlags, 0666);
  if (file.fd_ < 0 && errno == EEXIST && unlink(file.temporary_.c_str()) == 0) {
    file.fd_ = open(file.temporary_.c_str(), kFlags, 0666);
  }
  if (file.fd_ < 0) return IoError(path, "create", errno);
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, kNoDescriptor)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
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

Status AtomicFile::Commit() {
  SHARD_CHECK(FlushToDisk(fd_, path_));
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return IoError(path_, "rename", errno);
  close(std::exchange(fd_, kNoDescriptor));
  return FlushDirectory(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
}

// ---- Free functions

Result<std::string> ReadTextFile(const fs::path& path, uint64_t limit) {
  SHARD_TRY(const InputFile file, InputFile::Open(path));
  if (file.size() > limit) {
    return Error{Code::kCorrupt, Cat(path.string(), ": file size: expected at most ", limit,
                                     " bytes, found ", file.size())};
  }
  std::string text(file.size(), '\0');
  SHARD_CHECK(file.ReadAt(0, std::as_writable_bytes(std::span(text))));
  SHARD_CHECK(CheckNoLfsPointer(path.string(), text));
  return text;
}

Status WriteTextFile(const fs::path& path, std::string_view text) {
  SHARD_TRY(AtomicFile file, AtomicFile::Create(path));
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
  if (fsync(fd) != 0) return IoError(path, "flush to disk", errno);
  return Ok();
}

Status FlushDirectory(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return IoError(path, "open", errno);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  // Some file systems cannot flush a directory and say EINVAL; there is nothing more to do on them.
  if (result != 0 && error != EINVAL) return IoError(path, "flush to disk", error);
  return Ok();
}

Result<uint64_t> FreeBytes(const fs::path& path) {
  std::error_code ignored;
  fs::path existing = fs::absolute(path, ignored);
  while (!fs::exists(existing, ignored) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  struct statvfs info;
  if (statvfs(existing.c_str(), &info) != 0) return IoError(existing, "free space", errno);
  return uint64_t{info.f_bavail} * info.f_frsize;
}

}  // namespace shard
