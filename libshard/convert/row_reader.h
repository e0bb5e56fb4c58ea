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

#include "libshard/base/result.h"
#include "libshard/format/grid_report.h"
#include "libshard/format/output_file.h"
#include "quant/format.h"

namespace moepack {

// Rows [first, first + count) of a reader, and the bytes of the ranges that its AddReads gives for
// them, one after the other.
struct RowBytes {
  uint64_t first = 0, count = 0;
  std::span<const std::byte> bytes;
};

// An upper bound, in bytes, for reading and decoding some rows: for what is read and for scratch
// space, without the rows themselves.
struct RowRoom {
  uint64_t fixed = 0, per_row = 0;
  // Rows lie across what is read: a few rows mean many small reads.
  bool scattered = false;
};

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
  // Makes the rows; `out` has rows.count * row_values() values. kCorrupt, naming tensor and place,
  // for a scale that is not finite or below zero, and for a scale of zero whose codes are not all
  // zero.
  virtual Status Decode(const RowBytes& rows, std::span<float> out) const = 0;

  // Whether the source's own numbers can be kept in `to`, without a detour over F32 (MXFP4 to
  // MXFP4, symmetric int4 to Q4_0). Repack then makes the blocks, and counts them in `report`;
  // `out` has the size that Format::BytesFor gives. It fails as Decode does, and for scales that
  // are too large for `to` (kUnsupported).
  virtual bool CanRepack(const quant::Format* to) const;
  virtual Status Repack(const quant::Format* to, const RowBytes& rows, std::span<std::byte> out,
                        GridReport& report) const;

  // A reader of columns [first, first + count) of the rows, which reads little more than these;
  // null where rows can only be read whole.
  virtual std::shared_ptr<const RowReader> Band(uint64_t first, uint64_t count) const;

  virtual RowRoom Room() const = 0;
  // Everything that decides the rows, for PackIdentity: equal texts give equal rows.
  virtual std::string Describe() const = 0;

 private:
  uint64_t rows_, row_values_;
};

using RowReaderPtr = std::shared_ptr<const RowReader>;

// What a range costs in a list of them, and once more where a reader counts the bytes of a part.
inline constexpr uint64_t kRangeRoom = 2 * sizeof(SourceRange);

// Bytes of the ranges that AddReads gives.
uint64_t ReadBytes(const RowReader& reader, uint64_t first, uint64_t count);

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

}  // namespace moepack
