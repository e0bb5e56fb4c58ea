// The files of a cache of ranges (range_cache.h) and nothing else: a folder for every content of a
// file, with one file for every range. Folders are 0700, files 0600, and no link below the
// directory is followed. Files of others have other names and are left alone.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/result.h"

namespace moepack::remote {

struct CachedRange {
  uint64_t offset = 0, length = 0;  // in the file that was fetched

  uint64_t end() const { return offset + length; }
  bool operator==(const CachedRange&) const = default;
};

// Safe to use from several threads and processes at once: a file appears complete, by a rename.
class CacheDirectory {
 public:
  // Makes `named` and its missing parents. kInvalidArgument for one that others may write to,
  // because they could put weights into it.
  static Result<CacheDirectory> OpenOrMake(const fs::path& named);

  const fs::path& path() const { return path_; }
  // `address` is where the content comes from, `content` identifies it. Both are hashed, so neither
  // can be read from the name. Folders of one address start with the same characters.
  static std::string FolderName(std::string_view address, std::string_view content);
  static std::string FolderStart(std::string_view address);

  // The disk space that a range takes.
  static uint64_t SizeOnDisk(uint64_t length);

  std::vector<std::string> Folders() const;
  struct File {
    std::string folder, name;
    CachedRange range;  // of length 0 for what a killed writer left behind
    uint64_t size = 0;
    timespec used = {};
  };
  // Empty for a folder that does not exist.
  std::vector<File> Files(const std::string& folder) const;

  // Fills `out`, which is as long as the range, and marks the range as used now. False if it does
  // not exist; a corrupt one is removed first.
  bool Read(const std::string& folder, const CachedRange& range, std::span<std::byte> out) const;
  // kNotFound if the directory itself was removed.
  Status Write(const std::string& folder, const CachedRange& range,
               std::span<const std::byte> bytes) const;
  // Failures to remove are not reported. A folder is removed with its last file.
  void Remove(const std::string& folder, const std::string& name) const;

 private:
  CacheDirectory(Descriptor fd, fs::path path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Result<Descriptor> OpenFolder(const std::string& folder, bool make) const;

  Descriptor fd_;
  fs::path path_;
};

}  // namespace moepack::remote
