// Readers that work on columns or single values: transposed matrices, columns in another order,
// changed values.
#include <cassert>
#include <cmath>

#include "libshard/digest.h"
#include "libshard/row_reader.h"
#include "libshard/text.h"

namespace shard {
namespace {

// A row of the result is a column: a few bytes of every row of the file.
class PlainColumns : public RowReader {
 public:
  PlainColumns(const PlainMatrix& matrix, const Window& window)
      : RowReader(window.count, window.height), matrix_(matrix), window_(window) {
    assert(matrix.format->block_values == 1);
  }

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    const uint64_t size = matrix_.format->block_bytes;
    for (uint64_t i = 0; i < window_.height; ++i) {
      const uint64_t value = (window_.top + i) * matrix_.width + window_.first + first;
      reads.push_back({matrix_.file, matrix_.offset + value * size, count * size});
    }
  }
  void Decode(uint64_t, uint64_t count, std::span<const std::byte> bytes,
              std::span<float> out) const override {
    const uint64_t size = count * matrix_.format->block_bytes;
    std::vector<float> part(count);
    for (uint64_t i = 0; i < window_.height; ++i) {
      matrix_.format->decode(bytes.subspan(i * size, size), part);
      for (uint64_t j = 0; j < count; ++j) out[j * window_.height + i] = part[j];
    }
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

// Asks the base for whole rows, one by one, and keeps some columns of them.
class Transposed : public RowReader {
 public:
  Transposed(RowReaderPtr base, const Window& window)
      : RowReader(window.count, window.height), base_(std::move(base)), window_(window) {}

  void AddReads(uint64_t, uint64_t, std::vector<SourceRange>& reads) const override {
    for (uint64_t i = 0; i < window_.height; ++i) base_->AddReads(window_.top + i, 1, reads);
  }
  void Decode(uint64_t first, uint64_t count, std::span<const std::byte> bytes,
              std::span<float> out) const override {
    std::vector<float> row(base_->row_values());
    for (uint64_t i = 0; i < window_.height; ++i) {
      const uint64_t size = ReadBytes(*base_, window_.top + i, 1);
      base_->Decode(window_.top + i, 1, bytes.first(size), row);
      bytes = bytes.subspan(size);
      for (uint64_t j = 0; j < count; ++j) {
        out[j * window_.height + i] = row[window_.first + first + j];
      }
    }
  }
  std::string Describe() const override {
    return Cat("transposed ", window_.top, " ", window_.height, " ", window_.first, " ",
               window_.count, " of (", base_->Describe(), ")");
  }

 private:
  RowReaderPtr base_;
  Window window_;
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
  void Decode(uint64_t first, uint64_t count, std::span<const std::byte> bytes,
              std::span<float> out) const override {
    std::vector<float> rows(count * base_->row_values());
    base_->Decode(first, count, bytes, rows);
    for (uint64_t i = 0; i < count; ++i) {
      const float* row = rows.data() + i * base_->row_values();
      for (const uint32_t column : columns_) {
        out.front() = row[column];
        out = out.subspan(1);
      }
    }
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
  void Decode(uint64_t first, uint64_t count, std::span<const std::byte> bytes,
              std::span<float> out) const override {
    base_->Decode(first, count, bytes, out);
    for (float& value : out) {
      // In double, so that the result is the nearest float with any library.
      value = change_ == ValueChange::kPlusOne
                  ? value + 1.0f
                  : static_cast<float>(-std::exp(static_cast<double>(value)));
    }
  }
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

}  // namespace shard
