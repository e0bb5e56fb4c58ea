// MatMul and Embed: the operations that decode weights.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "libshard/base/text/text.h"
#include "quant/grids/points.h"
#include "runtime-shim/vulkan/call.h"
#include "runtime-shim/vulkan/vulkan_executor.h"

namespace moepack::runtime::vulkan {
namespace {

// The code books that the shaders of some types read from a buffer (shaders/grid_points.glsl).

struct Book {
  std::string_view format;
  std::span<const uint16_t> points;
};

// The points of quant/grids/points.h for a type, by quant::Format::name, an even number of them;
// empty for types without any.
std::span<const uint16_t> PointsOf(std::string_view format) {
  static const Book kBooks[] = {
      {"iq1_s", quant::kIq1Points},      {"iq1_m", quant::kIq1Points},
      {"iq2_xxs", quant::kIq2XxsPoints}, {"iq2_xs", quant::kIq2XsPoints},
      {"iq2_s", quant::kIq2SPoints},     {"iq3_xxs", quant::kIq3XxsPoints},
      {"iq3_s", quant::kIq3SPoints},
  };
  for (const Book& book : kBooks) {
    if (book.format == format) return book.points;
  }
  return {};
}

// shaders/mat_vec.comp and mat_mul.comp: rows of weights and tokens per workgroup.
struct Tile {
  uint32_t rows, tokens;
};
constexpr Tile kVectorTile = {4, 8};
constexpr Tile kMatrixTile = {64, 32};

// Struct Weights of shaders/weights.glsl.
struct BoundWeights {
  uint32_t first, row_bytes;
};

std::string ShaderOf(std::string_view operation, const quant::Format& format) {
  return Cat(operation, ".", format.name);
}

// Constants 0 and 1 of shaders/weights.glsl.
Constants ConstantsOf(const Matrix& weights) {
  const quant::Format& format = *weights.format;
  const bool whole_words = format.block_values == 1 || format.block_bytes % 4 == 0;
  const bool aligned = whole_words && weights.offset % 4 == 0 && weights.row_bytes() % 4 == 0;
  return {aligned, weights.columns % 4 == 0, 0};
}

uint64_t TilesOf(uint64_t count, uint32_t tile) { return (count + tile - 1) / tile; }

Matrix SliceOf(const Matrix& weights, uint32_t first, uint32_t rows) {
  Matrix slice = weights;
  slice.offset += first * weights.row_bytes();
  slice.rows = rows;
  return slice;
}

}  // namespace

bool VulkanExecutor::Supports(const quant::Format* format) const {
  return FindShader(ShaderOf("mat_vec", *format)) != nullptr;
}

uint32_t VulkanExecutor::RowsPerBinding(const Matrix& weights) const {
  const Limits& limits = core_.device->limits();
  const uint64_t usable = limits.binding_bytes - limits.binding_alignment - 2 * kPaddingBytes;
  return static_cast<uint32_t>(
      std::min<uint64_t>(weights.rows, usable / std::max<uint64_t>(weights.row_bytes(), 1)));
}

const Buffer* VulkanExecutor::PointBuffer(const quant::Format& format) {
  const std::span<const uint16_t> points = PointsOf(format.name);
  if (points.empty()) return nullptr;
  BufferPtr& buffer = points_[points.data()];
  if (buffer == nullptr) {
    Result<BufferPtr> loaded = Load(std::as_bytes(points));
    if (loaded) {
      buffer = std::move(*loaded);
    } else {
      core_.fault.Set(std::move(loaded).error());
    }
  }
  return buffer.get();
}

void VulkanExecutor::MatMul(const Matrix& weights, const Rows& x, const Rows& y) {
  // A row that does not fit is refused when it is bound.
  const uint32_t rows = std::max(RowsPerBinding(weights), uint32_t{1});
  for (uint32_t first = 0; first < weights.rows; first += std::min(rows, weights.rows - first)) {
    const uint32_t count = std::min(rows, weights.rows - first);
    MatMulSlice(SliceOf(weights, first, count), x, y.Columns(first, count));
  }
}

void VulkanExecutor::MatMulSlice(const Matrix& weights, const Rows& x, const Rows& y) {
  const bool vector = x.count <= kVectorTile.tokens;
  const Tile tile = vector ? kVectorTile : kMatrixTile;
  Constants constants = ConstantsOf(weights);
  // Separate pipelines for one, four and eight tokens, so that a single token does not pay for
  // more.
  constants[2] = x.count == 1 ? 1 : x.count <= 4 ? 4 : kVectorTile.tokens;
  const std::string shader = ShaderOf(vector ? "mat_vec" : "mat_mul", *weights.format);
  const Buffer* const points = PointBuffer(*weights.format);
  Call call(core_, shader, {constants});
  const uint32_t first = call.BindWeights(weights);
  const struct {
    BoundWeights weights;
    BoundRows x, y;
    uint32_t rows, columns, tokens;
  } push{{first, static_cast<uint32_t>(weights.row_bytes())},
         call.Bind(x),
         call.Bind(y),
         weights.rows,
         weights.columns,
         x.count};
  if (points != nullptr) call.BindWhole(*points);
  call.Run(TilesOf(weights.rows, tile.rows) * TilesOf(x.count, tile.tokens), push);
}

void VulkanExecutor::Embed(const Matrix& weights, std::span<const uint32_t> ids, const Rows& y) {
  if (RowsPerBinding(weights) == weights.rows) return EmbedSlice(weights, ids, y);
  // Too large for a binding: row by row.
  const uint32_t zero = 0;
  for (uint32_t i = 0; i < ids.size(); ++i)
    EmbedSlice(SliceOf(weights, ids[i], 1), std::span(&zero, 1), y.Slice(i, 1));
}

void VulkanExecutor::EmbedSlice(const Matrix& weights, std::span<const uint32_t> ids,
                                const Rows& y) {
  const Buffer* const points = PointBuffer(*weights.format);
  Call call(core_, ShaderOf("embed", *weights.format), {ConstantsOf(weights), ids.size_bytes()});
  const uint32_t first = call.BindWeights(weights);
  const struct {
    BoundWeights weights;
    uint32_t first_id;
    BoundRows y;
    uint32_t count, columns;
  } push{{first, static_cast<uint32_t>(weights.row_bytes())},
         call.BindArray(ids),
         call.Bind(y),
         static_cast<uint32_t>(ids.size()),
         weights.columns};
  if (points != nullptr) call.BindWhole(*points);
  call.RunOver(ids.size() * TilesOf(weights.columns, 4), push);
}

}  // namespace moepack::runtime::vulkan
