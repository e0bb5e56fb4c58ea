// Files: mapped for reading headers, read at offsets for bulk data, written beside the target and
// renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace shard {

namespace fs = std::filesystem;

// What identifies the content of an open file cheaply: if it is the same before and after, nobody
// replaced or wrote it. The time of the last status change does not count: it moves when a link to
// the file comes or goes, as happens while other nodes are assembled. So nobody notices a writer
// who writes as many bytes and sets the time of modification back; digests notice that.
struct FileIdentity {
  uint64_t device = 0, inode = 0, size = 0;
  int64_t modified_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};

// An open descriptor for reading at offsets; move-only, closes on destruction. Safe to use from
// several threads.
class InputFile {
 public:
  // Refuses directories, devices and pipes.
  static Result<InputFile> Open(const fs::path& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const fs::path& path() const { return path_; }
  uint64_t size() const { return identity_.size; }
  int descriptor() const { return fd_; }
  const FileIdentity& identity() const { return identity_; }

  // Fills `out` from `offset`; a short file is kCorrupt, a failing read is kIo, both with the
  // offset.
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const;
  // kCorrupt if the file behind the path or the descriptor is no longer the one that was opened.
  Status CheckUnchanged() const;

 private:
  InputFile() = default;
  fs::path path_;
  int fd_ = -1;
  FileIdentity identity_;
};

// A read-only private mapping of a whole file; move-only. The descriptor is closed at once. Empty
// files map to no bytes.
class MappedFile {
 public:
  static Result<MappedFile> Open(const fs::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const fs::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  // The identity at the moment of mapping.
  const FileIdentity& identity() const { return identity_; }

 private:
  MappedFile() = default;
  fs::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileIdentity identity_;
};

// Refuses paths that hold anything but a regular file, because a rename would remove it. Writes
// `<path>.tmp-<pid>` and renames it to `path` on Commit, after flushing it to disk; unlinks it
// otherwise. What was at `path` before stays until Commit, so a file may be replaced while it is
// mapped.
class AtomicFile {
 public:
  static Result<AtomicFile> Create(const fs::path& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status Write(std::string_view text);
  Status Commit();

 private:
  AtomicFile() = default;
  fs::path path_, temporary_;
  int fd_ = -1;
};

// Reads a small text file whole; more than `limit` bytes is kCorrupt.
Result<std::string> ReadTextFile(const fs::path& path, uint64_t limit);
// Writes an AtomicFile in one call.
Status WriteTextFile(const fs::path& path, std::string_view text);

// Writes everything with pwrite; a full disk is kIo with a hint.
Status WriteAt(int fd, const fs::path& path, uint64_t offset, std::span<const std::byte> bytes);
// Calls fsync on a file or directory.
Status FlushToDisk(int fd, const fs::path& path);
Status FlushDirectory(const fs::path& path);
// Bytes that an unprivileged process may still write on the file system of `path` (or of its
// nearest existing parent).
Result<uint64_t> FreeBytes(const fs::path& path);
// The operating system's reason: "No space left on device".
std::string ErrnoText(int error);

}  // namespace shard
