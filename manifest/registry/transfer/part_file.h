// A file that is being fetched: `<name>.part`, and beside it `<name>.cells`, which records how much
// of it is on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/result.h"
#include "manifest/registry/transfer/cell_map.h"

namespace moepack::registry {

// Takes no lock. Two processes that fetch the same file write the same bytes at the same offsets of
// one file, and each hashes all of it before publishing it. Move-only; borrows the directory.
class PartFile {
 public:
  // Resumes if the side file is for the same content, otherwise restarts (and calls `warn`). All of
  // its room is allocated on disk if the file system can do that: kIo, with the needed and free
  // space, if it does not fit. `name` is relative to the directory; missing folders are created.
  // REQUIRES: as for CellMap.
  static Result<PartFile> Open(const InsideDirectory& directory, const std::string& name,
                               CellMap cells, const std::function<void(const std::string&)>& warn);

  const CellMap& cells() const { return cells_; }
  fs::path path() const { return directory_->path() / part_; }

  // False once another process has renamed or removed the file. Writing would then change a file
  // that somebody else has verified.
  bool IsOurs() const { return IsOurs(part_); }
  // Writes at an offset, from any thread. kIo if the file is not ours.
  Status Write(uint64_t offset, std::span<const std::byte> bytes) const;
  Status Read(uint64_t offset, std::span<std::byte> out) const;
  // Flushes cells that were written completely, then notes them in the side file. REQUIRES: one
  // thread at a time, here and below.
  Status Keep(const std::vector<uint64_t>& cells);
  // Marks cells as missing again, so that they are refetched.
  Status Forget(const std::vector<uint64_t>& cells);

  // Flushes the file and gives it its name, replacing any existing file. kIo if it is no longer
  // ours.
  Status Publish();
  // Removes both files.
  Status Discard();

 private:
  PartFile(const InsideDirectory& directory, const std::string& name, CellMap cells);
  bool IsOurs(const std::string& name) const;
  Error Lost() const;
  Status OpenPart();
  Status ReadCells(const std::function<void(const std::string&)>& warn);
  Status Allocate();
  Status NoRoom(uint64_t size_before);
  // A file of one cell has no side file: it is either complete or missing.
  bool has_side_file() const { return cells_.count() > 1; }

  const InsideDirectory* directory_;
  std::string name_, part_, side_;
  CellMap cells_;
  Descriptor fd_;
};

// The disk space that `<name>.part` takes; 0 if it does not exist.
uint64_t AllocatedBytes(const InsideDirectory& directory, const std::string& name);

}  // namespace moepack::registry
