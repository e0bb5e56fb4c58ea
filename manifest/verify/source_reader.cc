#include "manifest/verify/source_reader.h"

#include <algorithm>
#include <cstring>

namespace moepack::manifest {
namespace {

// Slices of a few values lie close together in the source, so one read serves many of them.
constexpr uint64_t kWindow = 1u << 20;
constexpr uint64_t kSmall = 4096;  // shorter stretches go through the window

// A contiguous run of bytes of the source.
struct Stretch {
  uint64_t offset = 0, bytes = 0;
};

// Returns the bytes from `position` of the tensor to the next gap between its slices.
Stretch StretchAt(const SourceSlices& slices, uint64_t position) {
  const uint64_t held = slices.slice * slices.ids.size();  // bytes of one row that are held
  const uint64_t in_row = position % held;
  size_t index = in_row / slices.slice;
  const uint64_t in_slice = in_row % slices.slice;
  const uint64_t offset =
      slices.offset + position / held * slices.row + slices.ids[index] * slices.slice + in_slice;
  uint64_t bytes = slices.slice - in_slice;
  // Neighbouring ids lie side by side in the source and become one read.
  for (; index + 1 < slices.ids.size() && slices.ids[index + 1] == slices.ids[index] + 1; ++index) {
    bytes += slices.slice;
  }
  return {offset, bytes};
}

}  // namespace

Status SourceReader::Read(const SourceSlices& slices, uint64_t position, std::span<std::byte> out) {
  while (!out.empty()) {
    const Stretch stretch = StretchAt(slices, position);
    const size_t bytes = std::min<uint64_t>(stretch.bytes, out.size());
    SHARD_CHECK(Fetch(slices, stretch.offset, out.first(bytes)));
    position += bytes;
    out = out.subspan(bytes);
  }
  return Ok();
}

Status SourceReader::Fetch(const SourceSlices& slices, uint64_t offset, std::span<std::byte> out) {
  if (out.size() >= kSmall) return slices.file->ReadAt(offset, out);
  const bool inside = file_ == slices.file && offset >= window_offset_ &&
                      offset + out.size() <= window_offset_ + window_bytes_;
  if (!inside) {
    window_.resize(kWindow);
    window_bytes_ = std::min(kWindow, slices.file->size() - std::min(offset, slices.file->size()));
    SHARD_CHECK(slices.file->ReadAt(offset, std::span(window_).first(window_bytes_)));
    file_ = slices.file;
    window_offset_ = offset;
  }
  if (out.size() > window_bytes_)
    return slices.file->ReadAt(offset, out);  // fails with a message about the short file
  std::memcpy(out.data(), window_.data() + (offset - window_offset_), out.size());
  return Ok();
}

}  // namespace moepack::manifest
