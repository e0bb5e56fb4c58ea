// Rows of floats that may not fit in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/result.h"

namespace moepack::runtime {

// How much memory rows may still take, and where those go that do not fit.
struct RowRoom {
  // `scratch` "": TMPDIR or /tmp; errors are those of TemporaryDirectory.
  static Result<RowRoom> Of(uint64_t memory, const std::string& scratch);

  uint64_t memory = UINT64_MAX;        // bytes
  std::filesystem::path scratch = {};  // an existing directory; files in it have no name
  uint64_t spilled = 0;                // bytes written there
};

// `count` rows of `width` floats, zero at first. They are in memory, or in a file that disappears
// with the store, however the process ends. Move-only. Rows and ranges of rows must be in range.
class RowStore {
 public:
  // Takes its share of the room. kIo if the file cannot be created.
  static Result<RowStore> Make(uint64_t count, uint32_t width, RowRoom& room);

  uint64_t count() const { return count_; }
  uint32_t width() const { return width_; }
  bool in_memory() const { return !file_.valid(); }

  // Consecutive rows from `first`: as many as `values` has. kIo, with a hint, for a full disk.
  Status Read(uint64_t first, std::span<float> values) const;
  Status Write(uint64_t first, std::span<const float> values);
  // Row i of `values` is row rows[i]. `jobs`: threads, 0 for one per core.
  Status Gather(std::span<const uint32_t> rows, std::span<float> values, size_t jobs = 1) const;
  // Row rows[i] += row i of `values`. REQUIRES: the rows are distinct.
  Status ScatterAdd(std::span<const uint32_t> rows, std::span<const float> values, size_t jobs = 1);

 private:
  RowStore() = default;
  uint64_t count_ = 0;
  uint32_t width_ = 0;
  std::vector<float> values_;
  std::filesystem::path path_;  // for messages
  Descriptor file_;
};

}  // namespace moepack::runtime
