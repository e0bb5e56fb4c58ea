#include "runtime-shim/cpu/weight_tiles.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "runtime-shim/cpu/block_dots.h"
#include "runtime-shim/cpu/dots.h"
#include "runtime-shim/reference/host_executor.h"

namespace moepack::runtime {
namespace {

constexpr size_t kCacheLine = 64;
// Decoded tiles of this size fit in a thread's second-level cache beside the rows that they are
// multiplied by.
constexpr uint32_t kTileValues = 1 << 16;
// With a single row, weights are read as often as the row: kRowsAlone rows of these columns, plus
// the row, fit in the first-level cache. A multiple of all blocks, and a part of kColumnsAtOnce.
constexpr uint32_t kColumnsAlone = 512;

uint32_t TileRows(uint32_t columns) {
  return std::clamp(kTileValues / std::max(1u, columns) / 4 * 4, 4u, 128u);
}

// The weights themselves if they are floats; otherwise null.
const float* FloatsIn(const Matrix& weights, std::span<const std::byte> blocks) {
  static const quant::Format* const f32 = quant::FindFormat("f32");
  const bool aligned = reinterpret_cast<uintptr_t>(blocks.data()) % alignof(float) == 0;
  return aligned && weights.format == f32 ? reinterpret_cast<const float*>(blocks.data()) : nullptr;
}

const float* Decode(const Matrix& weights, const WeightRows& range, TileMemory& memory) {
  const auto blocks = BlocksOf(weights, range.first, range.count);
  if (const float* const own = FloatsIn(weights, blocks)) return own;
  const auto floats = memory.Get(size_t{range.count} * weights.columns);
  weights.format->decode(blocks, floats);
  return floats.data();
}

// Prefetches memory that will be read soon. The hardware prefetches, too, but not across pages.
void Prefetch(const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(from + at);
}

// y[r] = weights[first + r] . x, decoded a few rows and columns at a time.
void MultiplyAlone(const Matrix& weights, const WeightRows& range, const float* x, float* y,
                   TileMemory& memory) {
  const auto all = BlocksOf(weights, range.first, range.count);
  const size_t row_bytes = weights.row_bytes();
  if (MultiplyBlocks(weights.format, {all.data(), row_bytes, range.count, weights.columns, x, y}))
    return;
  const auto tile = memory.Get(size_t{kRowsAlone} * kColumnsAlone);
  for (uint32_t row = 0; row < range.count; row += kRowsAlone) {
    const uint32_t rows = std::min(kRowsAlone, range.count - row);
    const bool more = row + 2 * kRowsAlone <= range.count;
    DotsAlone dots(weights.columns, rows, y + row);
    size_t at = 0;  // in a row's bytes
    for (uint32_t column = 0; column < weights.columns; column += kColumnsAlone) {
      const uint32_t columns = std::min(kColumnsAlone, weights.columns - column);
      const size_t bytes = *weights.format->BytesFor(columns);
      for (uint32_t r = 0; r < rows; ++r) {
        const auto blocks = all.subspan((row + r) * row_bytes + at, bytes);
        if (more) Prefetch(blocks.data() + kRowsAlone * row_bytes, bytes);
        weights.format->decode(blocks, tile.subspan(size_t{r} * kColumnsAlone, columns));
      }
      dots.Add({tile.data(), kColumnsAlone, rows}, x + column, columns);
      at += bytes;
    }
  }
}

}  // namespace

void TileMemory::Free::operator()(float* memory) const { std::free(memory); }

std::span<float> TileMemory::Get(size_t values) {
  if (values > size_) {
    const size_t bytes = (values * sizeof(float) + kCacheLine - 1) / kCacheLine * kCacheLine;
    memory_.reset(static_cast<float*>(std::aligned_alloc(kCacheLine, bytes)));
    if (memory_ == nullptr) {
      size_ = 0;
      throw std::bad_alloc();
    }
    size_ = values;
  }
  return {memory_.get(), values};
}

std::vector<const float*> InputsOf(const Rows& rows) {
  std::vector<const float*> addresses(rows.count);
  for (uint32_t row = 0; row < rows.count; ++row) addresses[row] = RowOf(rows, row).data();
  return addresses;
}

std::vector<float*> OutputsOf(const Rows& rows) {
  std::vector<float*> addresses(rows.count);
  for (uint32_t row = 0; row < rows.count; ++row) addresses[row] = RowOf(rows, row).data();
  return addresses;
}

void MultiplyWeights(const Matrix& weights, const WeightRows& range,
                     std::span<const float* const> x, std::span<float* const> y,
                     TileMemory& memory) {
  const uint32_t tile_rows = TileRows(weights.columns);
  if (x.size() == 1) return MultiplyAlone(weights, range, x[0], y[0], memory);
  std::vector<float*> to(y.begin(), y.end());
  for (uint32_t done = 0; done < range.count; done += tile_rows) {
    const WeightRows tile = {range.first + done, std::min(tile_rows, range.count - done)};
    const float* const decoded = Decode(weights, tile, memory);
    MultiplyRows({{decoded, weights.columns, tile.count}, weights.columns, x, to});
    for (float*& row : to) row += tile.count;
  }
}

}  // namespace moepack::runtime
