#include "runtime-shim/cpu/weight_tiles.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "runtime-shim/cpu/dots.h"
#include "runtime-shim/reference/host_executor.h"

namespace moepack::runtime {
namespace {

constexpr size_t kCacheLine = 64;
// Decoded tiles that fit into a thread's second-level cache beside the rows that they are
// multiplied with; with one row, which is read as often as the weights, into the first-level cache.
constexpr uint32_t kTileValues = 1 << 16;
constexpr uint32_t kTileValuesAlone = 1 << 12;

uint32_t TileRows(uint32_t columns, size_t tokens) {
  const uint32_t values = tokens == 1 ? kTileValuesAlone : kTileValues;
  const uint32_t fit = values / std::max(1u, columns);
  return std::clamp(fit / 4 * 4, tokens == 1 ? 2u : 4u, 128u);
}

const float* Decode(const Matrix& weights, const RowRange& range, TileMemory& memory) {
  const auto blocks = BlocksOf(weights, range.first, range.count);
  static const quant::Format* const f32 = quant::FindFormat("f32");
  const bool aligned = reinterpret_cast<uintptr_t>(blocks.data()) % alignof(float) == 0;
  if (aligned && weights.format == f32) return reinterpret_cast<const float*>(blocks.data());
  const auto floats = memory.Get(size_t{range.count} * weights.columns);
  weights.format->decode(blocks, floats);
  return floats.data();
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

void MultiplyWeights(const Matrix& weights, const RowRange& range, std::span<const float* const> x,
                     std::span<float* const> y, TileMemory& memory) {
  const uint32_t tile_rows = TileRows(weights.columns, x.size());
  std::vector<float*> to(y.begin(), y.end());
  for (uint32_t done = 0; done < range.count; done += tile_rows) {
    const RowRange tile = {range.first + done, std::min(tile_rows, range.count - done)};
    const float* const decoded = Decode(weights, tile, memory);
    MultiplyRows({{decoded, weights.columns, tile.count}, weights.columns, x, to});
    for (float*& row : to) row += tile.count;
  }
}

}  // namespace moepack::runtime
