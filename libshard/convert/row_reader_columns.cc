// Readers that work on columns or single values: they transpose matrices, reorder columns or change
// values.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/row_reader.h"

namespace moepack {
namespace {

// The number of rows that are transposed at a time: 16 floats fill a cache line of the result.
constexpr uint64_t kTile = 16;

// Some rows of a matrix, and its height, for placing them in the transpose.
struct Tile {
  uint64_t first = 0, count = 0;
  uint64_t height = 0;  // of the matrix
};

void PutColumns(std::span<const float> rows, const Tile& tile, std::span<float> out) {
  const uint64_t width = rows.size() / tile.count;
  for (uint64_t j = 0; j < width; ++j) {
    float* to = out.data() + j * tile.height + tile.first;
    for (uint64_t i = 0; i < tile.count; ++i) to[i] = rows[i * width + j];
  }
}

// A row of the result is a column: a few bytes from every row of the file.
class PlainColumns : public RowReader {
 public:
  PlainColumns(const PlainMatrix& matrix, const Window& window)
      : RowReader(window.count, window.height), matrix_(matrix), window_(window) {
    assert(matrix.format->block_values == 1);
  }

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    const uint64_t size = matrix_.format->block_bytes;
    reads.reserve(reads.size() + window_.height);
    for (uint64_t i = 0; i < window_.height; ++i) {
      const uint64_t value = (window_.top + i) * matrix_.width + window_.first + first;
      reads.push_back({matrix_.file, matrix_.offset + value * size, count * size});
    }
  }
  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    const uint64_t size = rows.count * matrix_.format->block_bytes;
    std::vector<float> part(std::min(kTile, window_.height) * rows.count);
    for (uint64_t i = 0; i < window_.height; i += kTile) {
      const uint64_t height = std::min(kTile, window_.height - i);
      const auto tile = std::span(part).first(height * rows.count);
      matrix_.format->decode(rows.bytes.subspan(i * size, height * size), tile);
      PutColumns(tile, {i, height, window_.height}, out);
    }
    return Ok();
  }
  RowRoom Room() const override {
    return {window_.height * kRangeRoom,
            window_.height * matrix_.format->block_bytes + kTile * sizeof(float), true};
  }
  std::string Describe() const override {
    return Cat("columns of ", matrix_.format->name, " ", matrix_.file, " ", matrix_.offset, " ",
               matrix_.width, " ", window_.top, " ", window_.height, " ", window_.first, " ",
               window_.count);
  }

 private:
  PlainMatrix matrix_;
  Window window_;
};

// Asks the base for only the columns it needs if possible, otherwise for whole rows, one by one.
class Transposed : public RowReader {
 public:
  Transposed(RowReaderPtr base, const Window& window)
      : RowReader(window.count, window.height), base_(std::move(base)), window_(window) {
    room_ = BandRoom().value_or(WholeRoom());
  }

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    if (const RowReaderPtr band = base_->Band(window_.first + first, count)) {
      return band->AddReads(window_.top, window_.height, reads);
    }
    for (uint64_t i = 0; i < window_.height; ++i) base_->AddReads(window_.top + i, 1, reads);
  }
  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    if (const RowReaderPtr band = base_->Band(window_.first + rows.first, rows.count)) {
      std::vector<float> matrix(window_.height * rows.count);
      SHARD_CHECK(band->Decode({window_.top, window_.height, rows.bytes}, matrix));
      for (uint64_t i = 0; i < window_.height; i += kTile) {
        const uint64_t height = std::min(kTile, window_.height - i);
        PutColumns(std::span(matrix).subspan(i * rows.count, height * rows.count),
                   {i, height, window_.height}, out);
      }
      return Ok();
    }
    std::vector<float> row(base_->row_values());
    std::span<const std::byte> bytes = rows.bytes;
    for (uint64_t i = 0; i < window_.height; ++i) {
      const uint64_t size = ReadBytes(*base_, window_.top + i, 1);
      SHARD_CHECK(base_->Decode({window_.top + i, 1, bytes.first(size)}, row));
      bytes = bytes.subspan(size);
      PutColumns(std::span(row).subspan(window_.first + rows.first, rows.count),
                 {i, 1, window_.height}, out);
    }
    return Ok();
  }
  RowRoom Room() const override { return room_; }
  std::string Describe() const override {
    return Cat("transposed ", window_.top, " ", window_.height, " ", window_.first, " ",
               window_.count, " of (", base_->Describe(), ")");
  }

 private:
  RowRoom WholeRoom() const {
    const RowRoom row = base_->Room();
    return {window_.height * (row.fixed + row.per_row) + base_->row_values() * sizeof(float), 0,
            true};
  }
  // All rows of the window are read and decoded at once: the room for one column, plus for each
  // further column its share of the room for all.
  std::optional<RowRoom> BandRoom() const {
    const RowReaderPtr one = base_->Band(window_.first, 1);
    const RowReaderPtr all = base_->Band(window_.first, window_.count);
    if (one == nullptr || all == nullptr) return std::nullopt;
    const uint64_t height = window_.height;
    const uint64_t per_column = all->Room().per_row / window_.count + 1;
    return RowRoom{one->Room().fixed + height * one->Room().per_row,
                   all->Room().fixed / window_.count + height * (per_column + sizeof(float)), true};
  }

  RowReaderPtr base_;
  Window window_;
  RowRoom room_;
};

class Columns : public RowReader {
 public:
  Columns(RowReaderPtr base, std::vector<uint32_t> columns)
      : RowReader(base->rows(), columns.size()),
        base_(std::move(base)),
        columns_(std::move(columns)) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    base_->AddReads(first, count, reads);
  }
  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    std::vector<float> values(rows.count * base_->row_values());
    SHARD_CHECK(base_->Decode(rows, values));
    for (uint64_t i = 0; i < rows.count; ++i) {
      const float* row = values.data() + i * base_->row_values();
      for (const uint32_t column : columns_) {
        out.front() = row[column];
        out = out.subspan(1);
      }
    }
    return Ok();
  }
  RowRoom Room() const override {
    const RowRoom room = base_->Room();
    return {room.fixed, room.per_row + base_->row_values() * sizeof(float), room.scattered};
  }
  std::string Describe() const override {
    return Cat("columns ", Sha256Hex(std::as_bytes(std::span(columns_))), " of (",
               base_->Describe(), ")");
  }

 private:
  RowReaderPtr base_;
  std::vector<uint32_t> columns_;
};

class Changed : public RowReader {
 public:
  Changed(RowReaderPtr base, ValueChange change)
      : RowReader(base->rows(), base->row_values()), base_(std::move(base)), change_(change) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    base_->AddReads(first, count, reads);
  }
  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    SHARD_CHECK(base_->Decode(rows, out));
    for (float& value : out) {
      // exp in double, rounded once, gives the nearest float with any C library.
      value = change_ == ValueChange::kPlusOne
                  ? value + 1.0f
                  : static_cast<float>(-std::exp(static_cast<double>(value)));
    }
    return Ok();
  }
  RowRoom Room() const override { return base_->Room(); }
  std::string Describe() const override {
    return Cat(change_ == ValueChange::kPlusOne ? "1 + (" : "-exp (", base_->Describe(), ")");
  }

 private:
  RowReaderPtr base_;
  ValueChange change_;
};

}  // namespace

RowReaderPtr TransposedRows(RowReaderPtr base, const Window& window) {
  return std::make_shared<Transposed>(std::move(base), window);
}

RowReaderPtr TransposedPlain(const PlainMatrix& matrix, const Window& window) {
  return std::make_shared<PlainColumns>(matrix, window);
}

RowReaderPtr SelectedColumns(RowReaderPtr base, std::vector<uint32_t> columns) {
  return std::make_shared<Columns>(std::move(base), std::move(columns));
}

RowReaderPtr ChangedValues(RowReaderPtr base, ValueChange change) {
  return std::make_shared<Changed>(std::move(base), change);
}

}  // namespace moepack
