#include "libshard/pack/recode_rows.h"

#include <algorithm>
#include <numeric>

#include "libshard/base/text.h"
#include "libshard/convert/row_reader.h"
#include "libshard/pack/encode_rows.h"

namespace moepack {
namespace {

uint64_t RowsOf(const OutputTensor& tensor) {
  return std::accumulate(tensor.entry.shape.begin(), tensor.entry.shape.end(), uint64_t{1},
                         std::multiplies<>()) /
         tensor.encoding->row_values;
}

// Reads the rows of a tensor as they are after encoding and decoding.
class RecodedRows : public RowReader {
 public:
  explicit RecodedRows(const OutputTensor& tensor)
      : RowReader(RowsOf(tensor), tensor.encoding->row_values),
        tensor_(tensor),
        encoding_(*tensor_.encoding),
        row_bytes_(encoding_.reader != nullptr ? 1 : *encoding_.from->BytesFor(row_values())) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    for (const SourceRange& piece : Pieces(first, count)) {
      if (encoding_.reader == nullptr) {
        reads.push_back(piece);
      } else {
        encoding_.reader->AddReads(piece.offset, piece.bytes, reads);
      }
    }
  }

  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    RowEncoder encoder;
    std::vector<std::byte> encoded;
    std::span<const std::byte> in = rows.bytes;
    uint64_t row = rows.first;
    for (const SourceRange& piece : Pieces(rows.first, rows.count)) {
      const uint64_t count = piece.bytes / row_bytes_;
      const uint64_t read = encoding_.reader == nullptr
                                ? piece.bytes
                                : ReadBytes(*encoding_.reader, piece.offset, piece.bytes);
      if (encoding_.reader == nullptr) {
        encoder.Encode(tensor_, row, in.first(read), encoded);
      } else {
        SHARD_CHECK(encoder.EncodeRead(tensor_, piece, in.first(read), encoded));
      }
      encoding_.to->decode(encoded, out.first(count * row_values()));
      out = out.subspan(count * row_values());
      in = in.subspan(read);
      row += count;
    }
    return Ok();
  }

  RowRoom Room() const override {
    RowRoom room;
    if (encoding_.reader != nullptr) room = encoding_.reader->Room();
    const uint64_t encoded = *encoding_.to->BytesFor(row_values());
    room.per_row += kRangeRoom + encoded + row_values() * sizeof(float);
    if (encoding_.reader == nullptr) room.per_row += row_bytes_;
    return room;
  }

  std::string Describe() const override {
    return Cat("recoded ", encoding_.from->name, " ", encoding_.to->name, " ", tensor_.entry.name,
               encoding_.reader == nullptr ? "" : encoding_.reader->Describe());
  }

 private:
  // Returns the parts of the tensor's sources that rows [first, first + count) are made of. Where
  // the tensor has a reader, the parts count rows.
  std::vector<SourceRange> Pieces(uint64_t first, uint64_t count) const {
    std::vector<SourceRange> pieces;
    uint64_t skip = first * row_bytes_, left = count * row_bytes_;
    for (const SourceRange& source : tensor_.sources) {
      if (left == 0) break;
      if (skip >= source.bytes) {
        skip -= source.bytes;
        continue;
      }
      SourceRange piece = source;
      piece.offset += skip;
      piece.bytes = std::min(source.bytes - skip, left);
      skip = 0;
      left -= piece.bytes;
      pieces.push_back(piece);
    }
    return pieces;
  }

  const OutputTensor tensor_;
  const Encoding& encoding_;
  const uint64_t row_bytes_;  // what a row counts in the tensor's sources
};

// Picks the rows of importance for the experts that the tensor holds: a reader counts slices by
// their place in the tensor, importance by expert id.
std::shared_ptr<const Importance> ImportanceOf(const OutputTensor& tensor) {
  const std::shared_ptr<const Importance>& whole = tensor.encoding->importance;
  if (whole == nullptr || tensor.experts.empty()) return whole;
  if (whole->values.size() == whole->row_values) return whole;
  auto held = std::make_shared<Importance>();
  held->row_values = whole->row_values;
  held->digest = whole->digest;
  for (const uint32_t id : tensor.experts) {
    const std::span<const float> row = whole->Row(id);
    held->values.insert(held->values.end(), row.begin(), row.end());
  }
  return held;
}

}  // namespace

Result<OutputTensor> Recoded(const OutputTensor& first, OutputTensor second, uint64_t number) {
  if (!second.encoding || (!first.encoding && !first.literal)) {
    second.sources = first.sources;
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
  // The top bit gives the range an order of its own, so that the schedule never takes it for the
  // same rows of another file.
  second.sources = {RowRange(0, rows, (uint64_t{1} << 63) | number)};
  return second;
}

}  // namespace moepack
