// Local files: read at offsets, mapped when they are used as memory, or written beside the target
// and renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"

namespace moepack {

namespace fs = std::filesystem;

// A local file, open for reading. Move-only, closes on destruction. Its identity consists of
// device, inode, size and modification time. The status change time does not count, because it
// changes whenever a link to the file is made or removed, as happens while other nodes are
// assembled. So a writer who writes the same number of bytes and resets the modification time goes
// unnoticed here; digests detect that.
class InputFile final : public ByteSource {
 public:
  // Refuses directories, devices and pipes.
  static Result<InputFile> Open(const fs::path& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile() override;

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }
  const std::string& identity() const override { return identity_; }
  std::optional<int> descriptor() const override { return fd_; }
  // One pread, unless the system returns fewer bytes.
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;
  // Checks the file behind the descriptor and the one behind the path.
  Status CheckUnchanged() const override;

 private:
  InputFile() = default;
  std::string name_, identity_;
  uint64_t size_ = 0;
  int fd_ = -1;
};

// The bytes of a source as memory; move-only. A source with a descriptor is mapped, read-only and
// private; mapped_file.h explains what happens if it is truncated meanwhile. A source without one
// is read completely. An empty source has no bytes.
class MappedFile {
 public:
  static Result<MappedFile> Map(const ByteSource& source);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Refuses paths where there is anything but a regular file, because a rename would remove it, and a
// file that is a mount point, which no rename replaces. Writes a temporary file beside it
// (temporary_file.h) and renames it to `path` on Commit, after flushing it to disk; unlinks
// it otherwise. A previous file at `path` stays until Commit, so a file may be replaced while it is
// mapped. Without `replace`, Commit is kInvalidArgument if something has the name by then; what was
// written is kept as `<path>.kept-1`, or under the next number that is free.
class AtomicFile {
 public:
  static Result<AtomicFile> Create(const fs::path& path, bool replace = true);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status Write(std::string_view text);
  Status Commit();

 private:
  AtomicFile() = default;
  Error Keep();

  fs::path path_, temporary_;
  bool replace_ = true;
  int fd_ = -1;
};

// ReadText for a file that the user named, or that moepack wrote.
Result<std::string> ReadTextFile(const fs::path& path, uint64_t limit);
// Writes an AtomicFile in one call; `replace` is its.
Status WriteTextFile(const fs::path& path, std::string_view text, bool replace = true);

// Writes everything with pwrite; a full disk is kIo with a hint.
Status WriteAt(int fd, const fs::path& path, uint64_t offset, std::span<const std::byte> bytes);
// Calls fsync on a file or directory.
Status FlushToDisk(int fd, const fs::path& path);
Status FlushDirectory(const fs::path& path);
// Bytes that an unprivileged process may still write on the file system of `path` (or of its
// nearest existing parent).
Result<uint64_t> FreeBytes(const fs::path& path);
// The operating system's reason: "No space left on device". For ENOMEM it throws std::bad_alloc:
// memory that runs out ends in the same way wherever it does.
std::string ErrnoText(int error);

}  // namespace moepack
