#include "libshard/pack/encode_rows.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/row_reader.h"
#include "quant/search/magnitude.h"

namespace moepack {
namespace {

// Rows are decoded and encoded in tiles of about this many values, and at least one row. As F32 a
// tile takes 64 KiB, which stays in a core's cache, and it has enough blocks to fill the vectors of
// the kernels.
constexpr uint64_t kTileValues = 16384;

// A run of decoded rows, and where their encoded blocks go.
struct Tile {
  uint64_t first_row, rows;
  std::span<const float> values;
  std::span<std::byte> out;
};

// Encodes a tile. The rows of one expert (or of one slice) share a row of importance, so a tile is
// cut where a slice ends. slice_of(n) is the row of importance for the tensor's n-th slice.
template <class SliceOf>
void EncodeTile(const Encoding& encoding, const Tile& tile, const SliceOf& slice_of) {
  const uint64_t row_bytes = tile.out.size() / tile.rows, values = encoding.row_values;
  const uint64_t per_slice = encoding.rows_per_slice;
  for (uint64_t done = 0; done < tile.rows;) {
    const uint64_t row = tile.first_row + done;
    uint64_t count = tile.rows - done;
    std::span<const float> importance;
    if (encoding.importance != nullptr) {
      if (per_slice != 0) count = std::min(count, per_slice - row % per_slice);
      importance = encoding.importance->Row(per_slice == 0 ? 0 : slice_of(row / per_slice));
    }
    encoding.to->encode(tile.values.subspan(done * values, count * values), importance,
                        tile.out.subspan(done * row_bytes, count * row_bytes));
    done += count;
  }
}

uint64_t RowsPerTile(const Encoding& encoding) {
  return std::max<uint64_t>(1, kTileValues / encoding.row_values);
}

// IEEE 754 sets all exponent bits for infinity and NaN, and for nothing else.
template <class T>
uint64_t CountFullExponents(std::span<const std::byte> bytes, T exponent) {
  uint64_t count = 0;
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    count += (LoadLe<T>(bytes.subspan(at)) & exponent) == exponent ? 1 : 0;
  }
  return count;
}

struct Extremes {
  uint64_t not_finite = 0;
  uint32_t largest = 0;  // bits of the largest finite magnitude
};

Extremes ExtremesOf(std::span<const float> values) {
  Extremes extremes;
  for (const float value : values) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7fffffff;
    const bool finite = magnitude < 0x7f800000;
    extremes.not_finite += finite ? 0 : 1;
    extremes.largest = std::max(extremes.largest, finite ? magnitude : 0);
  }
  return extremes;
}

// Counts the values of a tile that are not finite before or after encoding. Block scales are F16,
// so a value above the largest F16 may make one infinite. Only tiles with such a value are decoded
// again to check. Infinity and NaN are above it too, when compared by their bits.
uint64_t NotFiniteIn(const Encoding& encoding, const Tile& tile) {
  constexpr uint32_t kLargestHalf = 0x477fe000;                            // 65504
  if (quant::LargestMagnitudeBits(tile.values) <= kLargestHalf) return 0;  // nearly always
  const Extremes source = ExtremesOf(tile.values);
  if (source.largest <= kLargestHalf || encoding.to->decode == nullptr) return source.not_finite;
  std::vector<float> decoded(tile.values.size());
  encoding.to->decode(tile.out, decoded);
  // The larger number, because a value that is not finite before and after must count once.
  return std::max(source.not_finite, ExtremesOf(decoded).not_finite);
}

}  // namespace

bool IsPlainFloat(const quant::Format* format) {
  return format->name == "f32" || format->name == "f16" || format->name == "bf16";
}

uint64_t CountNotFinite(const quant::Format* format, std::span<const std::byte> bytes) {
  if (format->name == "f32") return CountFullExponents<uint32_t>(bytes, 0x7f800000);
  return CountFullExponents<uint16_t>(bytes, format->name == "f16" ? 0x7c00 : 0x7f80);
}

ValueReport RowEncoder::Encode(const OutputTensor& tensor, uint64_t first_row,
                               std::span<const std::byte> in, std::vector<std::byte>& out) {
  const Encoding& encoding = *tensor.encoding;
  const uint64_t in_bytes = *encoding.from->BytesFor(encoding.row_values);
  const uint64_t out_bytes = *encoding.to->BytesFor(encoding.row_values);
  const uint64_t rows = in.size() / in_bytes, most = RowsPerTile(encoding);
  rows_.resize(std::min(rows, most) * encoding.row_values);
  out.resize(rows * out_bytes);
  const auto slice_of = [&](uint64_t slice) {
    return tensor.expert_ids.empty() ? slice : tensor.expert_ids[slice];
  };
  ValueReport report;
  for (uint64_t i = 0; i < rows; i += most) {
    const uint64_t count = std::min(most, rows - i);
    const auto values = std::span(rows_).first(count * encoding.row_values);
    encoding.from->decode(in.subspan(i * in_bytes, count * in_bytes), values);
    const Tile tile{first_row + i, count, values,
                    std::span(out).subspan(i * out_bytes, count * out_bytes)};
    EncodeTile(encoding, tile, slice_of);
    report.not_finite += NotFiniteIn(encoding, tile);
  }
  return report;
}

Result<ValueReport> RowEncoder::EncodeRead(const OutputTensor& tensor, const RowRange& rows,
                                           std::span<const std::byte> in,
                                           std::vector<std::byte>& out) {
  const Encoding& encoding = *tensor.encoding;
  const uint64_t out_bytes = *encoding.to->BytesFor(encoding.row_values);
  out.resize(rows.count * out_bytes);
  const RowBytes read{rows.first, rows.count, in};
  ValueReport report;
  if (encoding.repack) {
    SHARD_CHECK(encoding.reader->Repack(encoding.to, read, out, report.grid));
    return report;
  }
  rows_.resize(rows.count * encoding.row_values);
  SHARD_CHECK(encoding.reader->Decode(read, rows_));
  // A reader counts rows in the whole tensor, so slice n already is expert n.
  const auto slice_of = [](uint64_t slice) { return slice; };
  const uint64_t most = RowsPerTile(encoding);
  for (uint64_t i = 0; i < rows.count; i += most) {
    const uint64_t count = std::min(most, rows.count - i);
    const auto values =
        std::span(rows_).subspan(i * encoding.row_values, count * encoding.row_values);
    const Tile tile{rows.first + i, count, values,
                    std::span(out).subspan(i * out_bytes, count * out_bytes)};
    EncodeTile(encoding, tile, slice_of);
    report.not_finite += NotFiniteIn(encoding, tile);
  }
  return report;
}

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
