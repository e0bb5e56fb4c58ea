// Reads the bytes of a bundle's tensor from their place in the source.
#pragma once

#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/verify/verify_rules.h"

namespace moepack::manifest {

// Keeps a window of the source in memory, so that slices of a few bytes (an inner expert axis) do
// not cost a system call each.
class SourceReader {
 public:
  // Fills `out` with the bytes from `position` on of the tensor that `slices` describes.
  Status Read(const SourceSlices& slices, uint64_t position, std::span<std::byte> out);

 private:
  Status Fetch(const SourceSlices& slices, uint64_t offset, std::span<std::byte> out);

  const ByteSource* file_ = nullptr;
  uint64_t window_offset_ = 0, window_bytes_ = 0;
  std::vector<std::byte> window_;
};

}  // namespace moepack::manifest
