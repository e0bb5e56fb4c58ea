// SHA-256 of a file and of each of its cells, taken in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/digest.h"

namespace moepack {

// Cells of a chunk map, in bytes.
inline constexpr uint64_t kMapCellBytes = 64u << 20;

// A file that is fetched, and all files that are joined, have at most this many cells, so that what
// a server or a task promises cannot claim much memory.
inline constexpr uint64_t kMostCells = 1u << 22;

// A chunk map: SHA-256 of every `bytes` bytes of a file; the last cell may be shorter. Without
// digests there is no map.
struct CellDigests {
  uint64_t bytes = 0;
  std::vector<std::string> sha256;  // 64 digits each
  bool operator==(const CellDigests&) const = default;
};

// Streaming; each byte is hashed once for the file and, if cells are wanted, once more.
class CellSha256 {
 public:
  // 0: no cells.
  explicit CellSha256(uint64_t cell_bytes = 0);
  void Update(std::span<const std::byte> bytes);
  // End the stream; call each once, `Finish` first.
  std::string Finish();
  CellDigests TakeCells() { return std::move(cells_); }

 private:
  void EndCell();

  Sha256 whole_;
  std::optional<Sha256> cell_;  // the current cell; none without cells
  uint64_t in_cell_ = 0;        // bytes hashed into it so far
  CellDigests cells_;
};

}  // namespace moepack
