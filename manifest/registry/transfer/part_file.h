// A file that is being fetched: `<name>.part`, and `<name>.cells` beside it, which says what of it
// is on the disk.
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

// Takes no lock. Two processes that fetch the same file write the same bytes to the same places of
// one file, and each hashes all of it before it publishes it. Move-only; borrows the directory.
class PartFile {
 public:
  // Goes on with what is there if its side file is of the same content, else begins anew (told to
  // `warn`). All of its room is taken on the disk, where the file system can do that: kIo, with
  // what is needed and free, if it does not fit. `name` is relative to the directory, whose missing
  // folders are made. REQUIRES: as for CellMap.
  static Result<PartFile> Open(const InsideDirectory& directory, const std::string& name,
                               CellMap cells, const std::function<void(const std::string&)>& warn);

  const CellMap& cells() const { return cells_; }
  fs::path path() const { return directory_->path() / part_; }

  // False once another process has renamed or removed the file. What is written then would change
  // a file that somebody else has checked.
  bool IsOurs() const { return IsOurs(part_); }
  // Writes at an offset, from any thread. kIo when it is not ours.
  Status Write(uint64_t offset, std::span<const std::byte> bytes) const;
  Status Read(uint64_t offset, std::span<std::byte> out) const;
  // Brings cells that were written whole to the disk, then notes them in the side file.
  // REQUIRES: one thread at a time, here and below.
  Status Keep(const std::vector<uint64_t>& cells);
  // Takes cells back, which are then fetched again.
  Status Forget(const std::vector<uint64_t>& cells);

  // Brings the file to the disk and gives it its name, in place of what was there. kIo when it is
  // not ours any more.
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
  // A file of one cell has no side file: it is whole or not there.
  bool has_side_file() const { return cells_.count() > 1; }

  const InsideDirectory* directory_;
  std::string name_, part_, side_;
  CellMap cells_;
  Descriptor fd_;
};

// Bytes that `<name>.part` takes on the disk; 0 without one.
uint64_t AllocatedBytes(const InsideDirectory& directory, const std::string& name);

}  // namespace moepack::registry
