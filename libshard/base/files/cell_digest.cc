#include "libshard/base/files/cell_digest.h"

#include <algorithm>

namespace moepack {

CellSha256::CellSha256(uint64_t cell_bytes) : cells_{cell_bytes, {}} {
  if (cell_bytes > 0) cell_.emplace();
}

void CellSha256::EndCell() {
  cells_.sha256.push_back(cell_->Finish());
  cell_.emplace();
  in_cell_ = 0;
}

void CellSha256::Update(std::span<const std::byte> bytes) {
  whole_.Update(bytes);
  while (cell_ && !bytes.empty()) {
    const auto part = bytes.first(std::min<uint64_t>(bytes.size(), cells_.bytes - in_cell_));
    cell_->Update(part);
    in_cell_ += part.size();
    if (in_cell_ == cells_.bytes) EndCell();
    bytes = bytes.subspan(part.size());
  }
}

std::string CellSha256::Finish() {
  if (in_cell_ > 0) EndCell();
  return whole_.Finish();
}

}  // namespace moepack
