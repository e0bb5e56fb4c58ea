// Rows of F32 made of a checkpoint's bytes, for tensors that are more than rows in another type:
// scaled blocks, packed integers, transposed or reordered matrices, changed values. Readers are
// composed; each says which bytes it needs for some rows, and makes the rows of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libshard/slice.h"
#include "quant/format.h"

namespace shard {

// Immutable; used by several threads at once.
class RowReader {
 public:
  RowReader(uint64_t rows, uint64_t row_values) : rows_(rows), row_values_(row_values) {}
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;
  virtual ~RowReader() = default;

  uint64_t rows() const { return rows_; }
  uint64_t row_values() const { return row_values_; }

  // Appends the ranges that rows [first, first + count) are made of.
  virtual void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const = 0;
  // Makes these rows of the bytes of exactly those ranges, one after the other. `out` has
  // count * row_values() values.
  virtual void Decode(uint64_t first, uint64_t count, std::span<const std::byte> bytes,
                      std::span<float> out) const = 0;

  // Whether the source's own numbers can be kept in `to`, without a detour over F32 (MXFP4 to
  // MXFP4, the grid of an int4 source in Q4_0). Repack then makes the blocks of the same bytes that
  // Decode would get; `out` has the size that Format::BytesFor gives.
  virtual bool CanRepack(const quant::Format* to) const;
  virtual void Repack(const quant::Format* to, uint64_t first, uint64_t count,
                      std::span<const std::byte> bytes, std::span<std::byte> out) const;

  // Everything that decides the rows, for PackIdentity: equal texts give equal rows.
  virtual std::string Describe() const = 0;

 private:
  uint64_t rows_, row_values_;
};

using RowReaderPtr = std::shared_ptr<const RowReader>;

// Bytes of the ranges that AddReads gives.
uint64_t ReadBytes(const RowReader& reader, uint64_t first, uint64_t count);

// In the sources of a tensor with a reader, ranges count rows instead of bytes: `file` is this,
// `offset` the first row, `bytes` their number.
inline constexpr uint32_t kRowsOfReader = UINT32_MAX;
SourceRange RowRange(uint64_t first, uint64_t count, uint64_t order);

// Rows of `row_values` values of a type with a decoder, one after the other in a file. F32, F16,
// BF16, unscaled FP8, or blocks.
RowReaderPtr PlainRows(const quant::Format* format, uint32_t file, uint64_t offset, uint64_t rows,
                       uint64_t row_values);
// Matrices of the same width above each other: the experts of a layer.
RowReaderPtr StackedRows(std::vector<RowReaderPtr> parts);
// Rows of `base` in another order, some more than once or not at all. The base is made of matrices
// of `period` rows, and of each the rows `rows` are taken: row i is base row
// i / rows.size() * period + rows[i % rows.size()]. REQUIRES: `period` divides the base's rows.
RowReaderPtr SelectedRows(RowReaderPtr base, std::vector<uint64_t> rows, uint64_t period);
// Row i is column first + i of the `height` rows of `base` from `top` on; `count` rows.
struct Window {
  uint64_t top = 0, height = 0, first = 0, count = 0;
};
RowReaderPtr TransposedRows(RowReaderPtr base, const Window& window);
// The same for a large matrix of `width` plain values (one per block) in a file, of which only the
// window is read.
struct PlainMatrix {
  const quant::Format* format = nullptr;
  uint32_t file = 0;
  uint64_t offset = 0, width = 0;
};
RowReaderPtr TransposedPlain(const PlainMatrix& matrix, const Window& window);
// Value c of a row is value columns[c] of the base's row.
RowReaderPtr SelectedColumns(RowReaderPtr base, std::vector<uint32_t> columns);
// A function of each value.
enum class ValueChange : uint8_t { kPlusOne, kMinusExp };
RowReaderPtr ChangedValues(RowReaderPtr base, ValueChange change);

}  // namespace shard
