#include "libshard/row_reader.h"

#include <algorithm>
#include <cassert>

#include "libshard/digest.h"
#include "libshard/text.h"

namespace shard {
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
  void Decode(uint64_t, uint64_t, std::span<const std::byte> bytes,
              std::span<float> out) const override {
    format_->decode(bytes, out);
  }
  std::string Describe() const override {
    return Cat(format_->name, " ", file_, " ", offset_, " ", rows(), " ", row_values());
  }

 private:
  const quant::Format* format_;
  uint32_t file_;
  uint64_t offset_, row_bytes_;
};

// Rows of a part of a request: which base rows, and where they go in the output.
struct Run {
  uint64_t first = 0, count = 0;
};

class Stacked : public RowReader {
 public:
  explicit Stacked(std::vector<RowReaderPtr> parts)
      : RowReader(parts[0]->rows() * parts.size(), parts[0]->row_values()),
        parts_(std::move(parts)) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    ForEach(first, count,
            [&](const RowReader& part, Run run) { part.AddReads(run.first, run.count, reads); });
  }
  void Decode(uint64_t first, uint64_t count, std::span<const std::byte> bytes,
              std::span<float> out) const override {
    ForEach(first, count, [&](const RowReader& part, Run run) {
      const uint64_t size = ReadBytes(part, run.first, run.count);
      part.Decode(run.first, run.count, bytes.first(size), out.first(run.count * row_values()));
      bytes = bytes.subspan(size);
      out = out.subspan(run.count * row_values());
    });
  }
  bool CanRepack(const quant::Format* to) const override {
    return std::all_of(parts_.begin(), parts_.end(),
                       [&](const RowReaderPtr& part) { return part->CanRepack(to); });
  }
  void Repack(const quant::Format* to, uint64_t first, uint64_t count,
              std::span<const std::byte> bytes, std::span<std::byte> out) const override {
    const uint64_t row_bytes = *to->BytesFor(row_values());
    ForEach(first, count, [&](const RowReader& part, Run run) {
      const uint64_t size = ReadBytes(part, run.first, run.count);
      part.Repack(to, run.first, run.count, bytes.first(size), out.first(run.count * row_bytes));
      bytes = bytes.subspan(size);
      out = out.subspan(run.count * row_bytes);
    });
  }
  std::string Describe() const override {
    std::string text = "stacked";
    for (const RowReaderPtr& part : parts_) text += Cat(" (", part->Describe(), ")");
    return text;
  }

 private:
  template <class F>
  void ForEach(uint64_t first, uint64_t count, const F& work) const {
    const uint64_t height = parts_[0]->rows();
    while (count > 0) {
      const uint64_t part = first / height;
      const Run run{first % height, std::min(count, height - first % height)};
      work(*parts_[part], run);
      first += run.count;
      count -= run.count;
    }
  }

  std::vector<RowReaderPtr> parts_;
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
    ForEach(first, count, [&](Run span, Run) { base_->AddReads(span.first, span.count, reads); });
  }
  void Decode(uint64_t first, uint64_t count, std::span<const std::byte> bytes,
              std::span<float> out) const override {
    std::vector<float> scratch;
    ForEach(first, count, [&](Run span, Run taken) {
      const auto part = TakeBytes(span, bytes);
      const auto target = TakeRows(taken, row_values(), out);
      if (span.count == taken.count) return base_->Decode(span.first, span.count, part, target);
      scratch.resize(span.count * row_values());
      base_->Decode(span.first, span.count, part, scratch);
      Pick<float>(span, taken, row_values(), scratch, target);
    });
  }
  bool CanRepack(const quant::Format* to) const override { return base_->CanRepack(to); }
  void Repack(const quant::Format* to, uint64_t first, uint64_t count,
              std::span<const std::byte> bytes, std::span<std::byte> out) const override {
    const uint64_t row_bytes = *to->BytesFor(row_values());
    std::vector<std::byte> scratch;
    ForEach(first, count, [&](Run span, Run taken) {
      const auto part = TakeBytes(span, bytes);
      const auto target = TakeRows(taken, row_bytes, out);
      if (span.count == taken.count) return base_->Repack(to, span.first, span.count, part, target);
      scratch.resize(span.count * row_bytes);
      base_->Repack(to, span.first, span.count, part, scratch);
      Pick<std::byte>(span, taken, row_bytes, scratch, target);
    });
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

  // work(base rows to read, own rows among them); both have their first and last row in common.
  template <class F>
  void ForEach(uint64_t first, uint64_t count, const F& work) const {
    for (uint64_t i = first; i < first + count;) {
      Run taken{i, 1};
      uint64_t last = BaseRow(i);
      for (uint64_t next = i + 1; next < first + count; ++next) {
        const uint64_t row = BaseRow(next);
        if (row <= last || row - last > kLargestStep) break;
        last = row;
        ++taken.count;
      }
      work(Run{BaseRow(i), last - BaseRow(i) + 1}, taken);
      i += taken.count;
    }
  }

  std::span<const std::byte> TakeBytes(Run span, std::span<const std::byte>& bytes) const {
    const uint64_t size = ReadBytes(*base_, span.first, span.count);
    const auto part = bytes.first(size);
    bytes = bytes.subspan(size);
    return part;
  }

  template <class T>
  static std::span<T> TakeRows(Run taken, uint64_t size, std::span<T>& out) {
    const auto part = out.first(taken.count * size);
    out = out.subspan(part.size());
    return part;
  }

  // Copies the rows that are asked for out of those that were read; `size` elements each.
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

void RowReader::Repack(const quant::Format*, uint64_t, uint64_t, std::span<const std::byte>,
                       std::span<std::byte>) const {
  assert(false && "CanRepack says no");
}

uint64_t ReadBytes(const RowReader& reader, uint64_t first, uint64_t count) {
  std::vector<SourceRange> reads;
  reader.AddReads(first, count, reads);
  uint64_t bytes = 0;
  for (const SourceRange& range : reads) bytes += range.bytes;
  return bytes;
}

SourceRange RowRange(uint64_t first, uint64_t count, uint64_t order) {
  return {kRowsOfReader, first, count, order};
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

}  // namespace shard
