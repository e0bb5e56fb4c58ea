#include "libshard/pack/recode_rows.h"

#include <algorithm>
#include <numeric>

#include "libshard/base/text/text.h"
#include "libshard/convert/row_reader.h"
#include "libshard/pack/encode_rows.h"

namespace moepack {
namespace {

uint64_t RowsOf(const OutputTensor& tensor) {
  return std::accumulate(tensor.entry.shape.begin(), tensor.entry.shape.end(), uint64_t{1},
                         std::multiplies<>()) /
         tensor.encoding->row_values;
}

uint64_t LengthOf(const SourceRange& range) { return range.bytes; }
uint64_t LengthOf(const RowRange& range) { return range.count; }

// [skip, skip + left) of the concatenated ranges.
template <class Range>
std::vector<Range> PartsOf(const std::vector<Range>& ranges, uint64_t skip, uint64_t left) {
  std::vector<Range> parts;
  for (const Range& range : ranges) {
    if (left == 0) break;
    if (skip >= LengthOf(range)) {
      skip -= LengthOf(range);
      continue;
    }
    parts.push_back(range.Part(skip, std::min(LengthOf(range) - skip, left)));
    skip = 0;
    left -= LengthOf(parts.back());
  }
  return parts;
}

// Reads the rows of a tensor as they are after encoding and decoding.
class RecodedRows : public RowReader {
 public:
  explicit RecodedRows(const OutputTensor& tensor)
      : RowReader(RowsOf(tensor), tensor.encoding->row_values),
        tensor_(tensor),
        encoding_(*tensor_.encoding),
        row_bytes_(encoding_.reader != nullptr ? 0 : *encoding_.from->BytesFor(row_values())) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    for (const SourceRange& piece : Bytes(first, count)) reads.push_back(piece);
    for (const RowRange& piece : Rows(first, count)) {
      encoding_.reader->AddReads(piece.first, piece.count, reads);
    }
  }

  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    // Several threads may use a reader at once, so the scratch rows belong to the call.
    RowEncoder encoder;
    std::vector<std::byte> encoded;
    std::span<const std::byte> in = rows.bytes;
    uint64_t row = rows.first;
    const auto take = [&](uint64_t count, uint64_t read) {
      encoding_.to->decode(encoded, out.first(count * row_values()));
      out = out.subspan(count * row_values());
      in = in.subspan(read);
      row += count;
    };
    for (const SourceRange& piece : Bytes(rows.first, rows.count)) {
      encoder.Encode(tensor_, row, in.first(piece.bytes), encoded);
      take(piece.bytes / row_bytes_, piece.bytes);
    }
    for (const RowRange& piece : Rows(rows.first, rows.count)) {
      const uint64_t read = ReadBytes(*encoding_.reader, piece.first, piece.count);
      SHARD_CHECK(encoder.EncodeRead(tensor_, piece, in.first(read), encoded));
      take(piece.count, read);
    }
    return Ok();
  }

  RowRoom Room() const override {
    RowRoom room;
    if (encoding_.reader != nullptr) room = encoding_.reader->Room();
    const uint64_t encoded = *encoding_.to->BytesFor(row_values());
    room.per_row += kRangeRoom + row_bytes_ + encoded + row_values() * sizeof(float);
    return room;
  }

  std::string Describe() const override {
    return Cat("recoded ", encoding_.from->name, " ", encoding_.to->name, " ", tensor_.entry.name,
               encoding_.reader == nullptr ? "" : encoding_.reader->Describe());
  }

 private:
  // Returns what rows [first, first + count) are made from: parts of the tensor's sources, or of
  // its rows if it has a reader. The other list is empty.
  std::vector<SourceRange> Bytes(uint64_t first, uint64_t count) const {
    return PartsOf(tensor_.sources, first * row_bytes_, count * row_bytes_);
  }
  std::vector<RowRange> Rows(uint64_t first, uint64_t count) const {
    return PartsOf(tensor_.rows, first, count);
  }

  const OutputTensor tensor_;
  const Encoding& encoding_;
  const uint64_t row_bytes_;  // of a row in the sources; 0 if a reader makes the rows
};

// Picks the rows of importance for the experts that the tensor holds: a reader counts slices by
// their position in the tensor, importance by expert id.
std::shared_ptr<const Importance> ImportanceOf(const OutputTensor& tensor) {
  const std::shared_ptr<const Importance>& whole = tensor.encoding->importance;
  if (whole == nullptr || tensor.expert_ids.empty()) return whole;
  if (whole->values.size() == whole->row_values) return whole;
  auto held = std::make_shared<Importance>();
  held->row_values = whole->row_values;
  held->digest = whole->digest;
  for (const uint32_t id : tensor.expert_ids) {
    const std::span<const float> row = whole->Row(id);
    held->values.insert(held->values.end(), row.begin(), row.end());
  }
  return held;
}

}  // namespace

Result<OutputTensor> Recoded(const OutputTensor& first, OutputTensor second, uint64_t number) {
  // If a step only copies, the other one alone makes the values.
  if (!second.encoding || (!first.encoding && !first.literal)) {
    second.sources = first.sources;
    second.rows = first.rows;
    second.literal = first.literal;
    if (!second.encoding) second.encoding = first.encoding;
    return second;
  }
  Encoding encoding = *second.encoding;
  if (!first.encoding || first.encoding->row_values != encoding.row_values ||
      first.encoding->to->decode == nullptr) {
    return Error{Code::kUnsupported, Cat("tensor ", Quoted(second.entry.name),
                                         ": expected rows that can be decoded, found others")};
  }
  encoding.importance = ImportanceOf(second);
  encoding.reader = std::make_shared<RecodedRows>(first);
  encoding.repack = false;
  second.encoding = std::make_shared<const Encoding>(std::move(encoding));
  const uint64_t rows = RowsOf(second);
  // The top bit gives the range an order of its own, so that the schedule never mistakes it for the
  // same rows of another file.
  second.sources.clear();
  second.rows = {{0, rows, (uint64_t{1} << 63) | number}};
  return second;
}

}  // namespace moepack
