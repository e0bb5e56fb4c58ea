// Rows of F32 made of a checkpoint's bytes, for tensors that are more than rows in another type:
// scaled blocks, packed integers, transposed or reordered matrices, changed values. Readers can be
// composed; each says which bytes it needs for given rows, and makes the rows from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/grid_report.h"
#include "libshard/format/output_file.h"
#include "quant/format.h"

namespace moepack {

// Rows [first, first + count) of a reader, and the bytes of the ranges that its AddReads returns
// for them, one after another.
struct RowBytes {
  uint64_t first = 0, count = 0;
  std::span<const std::byte> bytes;
};

// An upper bound, in bytes, on the memory for reading and decoding some rows: the bytes read and
// scratch space, without the rows themselves.
struct RowRoom {
  uint64_t fixed = 0, per_row = 0;
  // The rows run across the stored bytes: a few rows mean many small reads.
  bool scattered = false;
};

// Immutable; safe to use from several threads at once.
class RowReader {
 public:
  RowReader(uint64_t rows, uint64_t row_values) : rows_(rows), row_values_(row_values) {}
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;
  virtual ~RowReader() = default;

  uint64_t rows() const { return rows_; }
  uint64_t row_values() const { return row_values_; }

  // Appends the ranges that rows [first, first + count) are made from.
  virtual void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const = 0;
  // Makes the rows; `out` has rows.count * row_values() values. kCorrupt, naming tensor and
  // position, for a scale that is negative or not finite, and for a scale of zero whose codes are
  // not all zero.
  virtual Status Decode(const RowBytes& rows, std::span<float> out) const = 0;

  // Whether the source's own numbers can be kept in `to`, without a detour over F32 (MXFP4 to
  // MXFP4, symmetric int4 to Q4_0). Repack then makes the blocks, and counts them in `report`;
  // `out` has the size that Format::BytesFor gives. It fails where Decode does, and for scales that
  // are too large for `to` (kUnsupported).
  virtual bool CanRepack(const quant::Format* to) const;
  virtual Status Repack(const quant::Format* to, const RowBytes& rows, std::span<std::byte> out,
                        GridReport& report) const;

  // A reader of columns [first, first + count) of the rows, which reads little more than these;
  // null if rows can only be read whole.
  virtual std::shared_ptr<const RowReader> Band(uint64_t first, uint64_t count) const;

  virtual RowRoom Room() const = 0;
  // Everything that determines the rows, for PackIdentity: equal texts mean equal rows.
  virtual std::string Describe() const = 0;

 private:
  uint64_t rows_, row_values_;
};

using RowReaderPtr = std::shared_ptr<const RowReader>;

// The memory a range takes in a list, plus the same again where a reader counts the bytes of a
// part.
inline constexpr uint64_t kRangeRoom = 2 * sizeof(SourceRange);

// The size of the ranges that AddReads returns.
uint64_t ReadBytes(const RowReader& reader, uint64_t first, uint64_t count);

// Rows of `row_values` values of a type with a decoder, one after another in a file. F32, F16,
// BF16, unscaled FP8, or blocks.
RowReaderPtr PlainRows(const quant::Format* format, uint32_t file, uint64_t offset, uint64_t rows,
                       uint64_t row_values);
// Matrices of the same width, stacked: the experts of a layer.
RowReaderPtr StackedRows(std::vector<RowReaderPtr> parts);
// Rows of `base` in another order, possibly repeated or left out. The base consists of matrices of
// `period` rows, and the rows `rows` of each are taken: row i is base row i / rows.size() * period
// + rows[i % rows.size()]. REQUIRES: `period` divides the base's rows.
RowReaderPtr SelectedRows(RowReaderPtr base, std::vector<uint64_t> rows, uint64_t period);
// Row i is column first + i of the `height` rows of `base` from `top` on; `count` rows.
struct Window {
  uint64_t top = 0, height = 0, first = 0, count = 0;
};
RowReaderPtr TransposedRows(RowReaderPtr base, const Window& window);
// The same for a large matrix of `width` plain values (one per block) in a file, reading only the
// window.
struct PlainMatrix {
  const quant::Format* format = nullptr;
  uint32_t file = 0;
  uint64_t offset = 0, width = 0;
};
RowReaderPtr TransposedPlain(const PlainMatrix& matrix, const Window& window);
// Value c of a row is value columns[c] of the base's row.
RowReaderPtr SelectedColumns(RowReaderPtr base, std::vector<uint32_t> columns);
// Each value is the product of those of two readers of equal rows.
RowReaderPtr MultipliedRows(RowReaderPtr a, RowReaderPtr b);
// A function of each value.
enum class ValueChange : uint8_t { kPlusOne, kMinusExp, kExp };
RowReaderPtr ChangedValues(RowReaderPtr base, ValueChange change);

}  // namespace moepack
