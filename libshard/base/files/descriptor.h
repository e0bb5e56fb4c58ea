// Open descriptors, and error messages for errors of the operating system.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "libshard/base/result.h"

namespace moepack {

// Owns a file descriptor; move-only.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// "<path>: <action>: <reason>" with a hint where there is one: kNotFound for a file that is not
// there, kIo for everything else. A missing permission is named with the file or directory that
// lacks it. ENOMEM is thrown as std::bad_alloc.
Error IoError(const std::filesystem::path& path, std::string_view action, int error);

// Returns whether something can be read under this name. A dangling link, or a name that cannot be
// looked up, is an error: what cannot be read must not count as absent.
Result<bool> IsThere(const std::filesystem::path& path);

// Returns whether there is a directory under this name; a link to one counts. A name that cannot be
// looked up is an error, as it may be one.
Result<bool> IsDirectory(const std::filesystem::path& path);

// Returns whether the name is taken, even if only by a dangling link. A name that cannot be looked
// up is an error: what is not known must not count as free.
Result<bool> IsTaken(const std::filesystem::path& path);

// Returns whether something is mounted under this name, a directory or a single file (a bind
// mount), which can be neither renamed nor replaced. False where nothing is there; links are not
// followed.
Result<bool> IsMountPoint(const std::filesystem::path& path);
// The error for an output file that is one.
Error CannotReplaceMountedFile(const std::filesystem::path& path);

// Returns whether both names lead to one file, which is not so where nothing is there. A name that
// cannot be looked up is an error: an input that is not recognised would be overwritten.
Result<bool> IsSameFile(const std::filesystem::path& one, const std::filesystem::path& other);

// Fills `out` with pread. A file that ends before `out` is full is kCorrupt.
Status ReadAt(int fd, const std::filesystem::path& path, uint64_t offset, std::span<std::byte> out);

}  // namespace moepack
