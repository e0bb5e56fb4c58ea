#include "libshard/convert/row_reader.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

class Plain : public RowReader {
 public:
  Plain(const quant::Format* format, uint32_t file, uint64_t offset, uint64_t rows,
        uint64_t row_values)
      : RowReader(rows, row_values),
        format_(format),
        file_(file),
        offset_(offset),
        row_bytes_(*format->BytesFor(row_values)) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    reads.push_back({file_, offset_ + first * row_bytes_, count * row_bytes_});
  }
  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    format_->decode(rows.bytes, out);
    return Ok();
  }
  RowRoom Room() const override { return {kRangeRoom, row_bytes_}; }
  std::string Describe() const override {
    return Cat(format_->name, " ", file_, " ", offset_, " ", rows(), " ", row_values());
  }

 private:
  const quant::Format* format_;
  uint32_t file_;
  uint64_t offset_, row_bytes_;
};

// Rows for part of a request: which base rows, and where they go in the output.
struct Run {
  uint64_t first = 0, count = 0;
};

// Takes the bytes of these rows of `part` off the front of `bytes`.
RowBytes Take(const RowReader& part, Run run, std::span<const std::byte>& bytes) {
  const uint64_t size = ReadBytes(part, run.first, run.count);
  const RowBytes rows{run.first, run.count, bytes.first(size)};
  bytes = bytes.subspan(size);
  return rows;
}

class Stacked : public RowReader {
 public:
  explicit Stacked(std::vector<RowReaderPtr> parts)
      : RowReader(parts[0]->rows() * parts.size(), parts[0]->row_values()),
        parts_(std::move(parts)),
        room_(RoomOf(parts_)) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    const Status status = ForEach(first, count, [&](const RowReader& part, Run run) {
      part.AddReads(run.first, run.count, reads);
      return Ok();
    });
    assert(status);
  }
  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    std::span<const std::byte> bytes = rows.bytes;
    return ForEach(rows.first, rows.count, [&](const RowReader& part, Run run) -> Status {
      const RowBytes taken = Take(part, run, bytes);
      SHARD_CHECK(part.Decode(taken, out.first(run.count * row_values())));
      out = out.subspan(run.count * row_values());
      return Ok();
    });
  }
  bool CanRepack(const quant::Format* to) const override {
    return std::all_of(parts_.begin(), parts_.end(),
                       [&](const RowReaderPtr& part) { return part->CanRepack(to); });
  }
  Status Repack(const quant::Format* to, const RowBytes& rows, std::span<std::byte> out,
                GridReport& report) const override {
    const uint64_t row_bytes = *to->BytesFor(row_values());
    std::span<const std::byte> bytes = rows.bytes;
    return ForEach(rows.first, rows.count, [&](const RowReader& part, Run run) -> Status {
      const RowBytes taken = Take(part, run, bytes);
      SHARD_CHECK(part.Repack(to, taken, out.first(run.count * row_bytes), report));
      out = out.subspan(run.count * row_bytes);
      return Ok();
    });
  }
  RowRoom Room() const override { return room_; }
  std::string Describe() const override {
    std::string text = "stacked";
    for (const RowReaderPtr& part : parts_) text += Cat(" (", part->Describe(), ")");
    return text;
  }

 private:
  // The rows touch at most count / height + 2 parts, each of which may need its fixed room.
  static RowRoom RoomOf(const std::vector<RowReaderPtr>& parts) {
    RowRoom room;
    for (const RowReaderPtr& part : parts) {
      const RowRoom own = part->Room();
      room.fixed = std::max(room.fixed, own.fixed);
      room.per_row = std::max(room.per_row, own.per_row);
      room.scattered = room.scattered || own.scattered;
    }
    if (parts.size() == 1) return room;
    const uint64_t per_row = room.per_row + room.fixed / parts[0]->rows() + 1;
    return {2 * room.fixed, per_row, room.scattered};
  }

  template <class F>
  Status ForEach(uint64_t first, uint64_t count, const F& work) const {
    const uint64_t height = parts_[0]->rows();
    while (count > 0) {
      const uint64_t part = first / height;
      const Run run{first % height, std::min(count, height - first % height)};
      SHARD_CHECK(work(*parts_[part], run));
      first += run.count;
      count -= run.count;
    }
    return Ok();
  }

  std::vector<RowReaderPtr> parts_;
  RowRoom room_;
};

// Rows of a matrix that is repeated every `period` base rows.
class Selected : public RowReader {
 public:
  Selected(RowReaderPtr base, std::vector<uint64_t> rows, uint64_t period)
      : RowReader(rows.size() * (base->rows() / period), base->row_values()),
        base_(std::move(base)),
        rows_(std::move(rows)),
        period_(period) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    const Status status = ForEach(first, count, [&](Run span, Run) {
      base_->AddReads(span.first, span.count, reads);
      return Ok();
    });
    assert(status);
  }
  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    std::span<const std::byte> bytes = rows.bytes;
    std::vector<float> scratch;
    return ForEach(rows.first, rows.count, [&](Run span, Run taken) -> Status {
      const RowBytes part = Take(*base_, span, bytes);
      const auto target = TakeRows(taken, row_values(), out);
      if (span.count == taken.count) return base_->Decode(part, target);
      scratch.resize(span.count * row_values());
      SHARD_CHECK(base_->Decode(part, scratch));
      Pick<float>(span, taken, row_values(), scratch, target);
      return Ok();
    });
  }
  bool CanRepack(const quant::Format* to) const override { return base_->CanRepack(to); }
  Status Repack(const quant::Format* to, const RowBytes& rows, std::span<std::byte> out,
                GridReport& report) const override {
    const uint64_t row_bytes = *to->BytesFor(row_values());
    std::span<const std::byte> bytes = rows.bytes;
    std::vector<std::byte> scratch;
    return ForEach(rows.first, rows.count, [&](Run span, Run taken) -> Status {
      const RowBytes part = Take(*base_, span, bytes);
      const auto target = TakeRows(taken, row_bytes, out);
      if (span.count == taken.count) return base_->Repack(to, part, target, report);
      scratch.resize(span.count * row_bytes);
      GridReport all;
      SHARD_CHECK(base_->Repack(to, part, scratch, all));
      report.Add(ShareOf(all, span, taken));
      Pick<std::byte>(span, taken, row_bytes, scratch, target);
      return Ok();
    });
  }
  RowRoom Room() const override {
    const RowRoom base = base_->Room();
    uint64_t breaks = 0, gaps = 0;
    for (size_t i = 1; i < rows_.size(); ++i) {
      const bool follows = Follows(rows_[i - 1], rows_[i]);
      breaks += follows ? 0 : 1;
      gaps += follows && rows_[i] - rows_[i - 1] > 1 ? 1 : 0;
    }
    const uint64_t read = gaps > 0 ? kLargestStep : 1;
    RowRoom room{2 * base.fixed, read * base.per_row, base.scattered};
    // A run may be a single row, and needs the fixed room on its own.
    room.per_row += breaks > 0 ? base.fixed : base.fixed / rows_.size() + 1;
    if (gaps > 0) room.per_row += read * row_values() * sizeof(float);
    return room;
  }
  std::string Describe() const override {
    return Cat("rows ", Sha256Hex(std::as_bytes(std::span(rows_))), " of every ", period_, " of (",
               base_->Describe(), ")");
  }

 private:
  // Every other row is still read in one piece: two small reads cost more than one row too many.
  static constexpr uint64_t kLargestStep = 2;

  uint64_t BaseRow(uint64_t row) const {
    return row / rows_.size() * period_ + rows_[row % rows_.size()];
  }

  static bool Follows(uint64_t last, uint64_t row) {
    return row > last && row - last <= kLargestStep;
  }

  // Calls work(base rows to read, own rows among them); both have the same first and last row.
  template <class F>
  Status ForEach(uint64_t first, uint64_t count, const F& work) const {
    for (uint64_t i = first; i < first + count;) {
      Run taken{i, 1};
      uint64_t last = BaseRow(i);
      for (uint64_t next = i + 1; next < first + count; ++next) {
        const uint64_t row = BaseRow(next);
        if (!Follows(last, row)) break;
        last = row;
        ++taken.count;
      }
      SHARD_CHECK(work(Run{BaseRow(i), last - BaseRow(i) + 1}, taken));
      i += taken.count;
    }
    return Ok();
  }

  // Rows between the selected ones were decoded, too. All rows have equally many scales; how many
  // of the skipped ones were exact is not known, so they are assumed to have the same share.
  static GridReport ShareOf(const GridReport& all, Run span, Run taken) {
    const auto share = [&](uint64_t number) { return number / span.count * taken.count; };
    const uint64_t scales = share(all.scales);
    const uint64_t exact = all.exact == all.scales ? scales : share(all.exact);
    return {share(all.weights), scales, exact, all.rounding};
  }

  template <class T>
  static std::span<T> TakeRows(Run taken, uint64_t size, std::span<T>& out) {
    const auto part = out.first(taken.count * size);
    out = out.subspan(part.size());
    return part;
  }

  // Copies the requested rows out of those that were read; `size` elements each.
  template <class T>
  void Pick(Run span, Run taken, uint64_t size, std::span<const T> from, std::span<T> out) const {
    for (uint64_t i = 0; i < taken.count; ++i) {
      const uint64_t row = BaseRow(taken.first + i) - span.first;
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(row * size), size,
                  out.begin() + static_cast<std::ptrdiff_t>(i * size));
    }
  }

  RowReaderPtr base_;
  std::vector<uint64_t> rows_;
  uint64_t period_;
};

}  // namespace

bool RowReader::CanRepack(const quant::Format*) const { return false; }

Status RowReader::Repack(const quant::Format*, const RowBytes&, std::span<std::byte>,
                         GridReport&) const {
  assert(false && "CanRepack says no");
  return Ok();
}

RowReaderPtr RowReader::Band(uint64_t, uint64_t) const { return nullptr; }

uint64_t ReadBytes(const RowReader& reader, uint64_t first, uint64_t count) {
  std::vector<SourceRange> reads;
  reader.AddReads(first, count, reads);
  uint64_t bytes = 0;
  for (const SourceRange& range : reads) bytes += range.bytes;
  return bytes;
}

RowReaderPtr PlainRows(const quant::Format* format, uint32_t file, uint64_t offset, uint64_t rows,
                       uint64_t row_values) {
  return std::make_shared<Plain>(format, file, offset, rows, row_values);
}

RowReaderPtr StackedRows(std::vector<RowReaderPtr> parts) {
  return std::make_shared<Stacked>(std::move(parts));
}

RowReaderPtr SelectedRows(RowReaderPtr base, std::vector<uint64_t> rows, uint64_t period) {
  assert(period > 0 && base->rows() % period == 0 && !rows.empty());
  return std::make_shared<Selected>(std::move(base), std::move(rows), period);
}

// Readers that work on columns or single values: they transpose matrices, reorder columns or change
// values.

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
    for (float& value : out) value = Change(value);
    return Ok();
  }
  RowRoom Room() const override { return base_->Room(); }
  std::string Describe() const override {
    const char* const name = change_ == ValueChange::kPlusOne    ? "1 + ("
                             : change_ == ValueChange::kMinusExp ? "-exp ("
                                                                 : "exp (";
    return Cat(name, base_->Describe(), ")");
  }

 private:
  float Change(float value) const {
    if (change_ == ValueChange::kPlusOne) return value + 1.0f;
    // exp in double, rounded once, gives the nearest float with any C library.
    const auto exp = static_cast<float>(std::exp(static_cast<double>(value)));
    return change_ == ValueChange::kMinusExp ? -exp : exp;
  }

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

namespace {

class Multiplied : public RowReader {
 public:
  Multiplied(RowReaderPtr a, RowReaderPtr b)
      : RowReader(a->rows(), a->row_values()), a_(std::move(a)), b_(std::move(b)) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    a_->AddReads(first, count, reads);
    b_->AddReads(first, count, reads);
  }
  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    const uint64_t size = ReadBytes(*a_, rows.first, rows.count);
    SHARD_CHECK(a_->Decode({rows.first, rows.count, rows.bytes.first(size)}, out));
    std::vector<float> factors(out.size());
    SHARD_CHECK(b_->Decode({rows.first, rows.count, rows.bytes.subspan(size)}, factors));
    for (size_t i = 0; i < out.size(); ++i) out[i] *= factors[i];
    return Ok();
  }
  RowRoom Room() const override {
    const RowRoom a = a_->Room(), b = b_->Room();
    return {a.fixed + b.fixed, a.per_row + b.per_row + row_values() * sizeof(float),
            a.scattered || b.scattered};
  }
  std::string Describe() const override {
    return Cat("(", a_->Describe(), ") times (", b_->Describe(), ")");
  }

 private:
  RowReaderPtr a_, b_;
};

}  // namespace

RowReaderPtr MultipliedRows(RowReaderPtr a, RowReaderPtr b) {
  return std::make_shared<Multiplied>(std::move(a), std::move(b));
}

RowReaderPtr ChangedValues(RowReaderPtr base, ValueChange change) {
  return std::make_shared<Changed>(std::move(base), change);
}

}  // namespace moepack
