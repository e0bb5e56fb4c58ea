// Which cells of a file that is being fetched are on disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/cell_digest.h"
#include "libshard/base/result.h"

namespace moepack::registry {

// Each cell has `cell_bytes`, the last one the rest. The text form is the side file:
// {"version":1,"sha256":"<64 digits>","size":<bytes>,"cell_bytes":<bytes>,"done":"0110..."}, one
// digit for each cell.
class CellMap {
 public:
  // Nothing is done yet. REQUIRES: cell_bytes > 0, and at most kMostCells cells.
  CellMap(std::string sha256, uint64_t size, uint64_t cell_bytes);

  uint64_t size() const { return size_; }
  uint64_t cell_bytes() const { return cell_bytes_; }
  uint64_t count() const { return done_.size(); }
  uint64_t BytesOf(uint64_t cell) const;
  bool Has(uint64_t cell) const { return done_[cell]; }
  void Set(uint64_t cell, bool done) { done_[cell] = done; }
  uint64_t done_bytes() const;

  std::string Text() const;
  // Adopts what the text says is done. kCorrupt, and nothing is adopted, unless it is a side file
  // with the same digest, size and cell size; `where` names it.
  Status Read(const std::string& where, std::string_view text);

 private:
  std::string sha256_;
  uint64_t size_, cell_bytes_;
  std::vector<bool> done_;
};

}  // namespace moepack::registry
