#include "libshard/encode_rows.h"

#include <algorithm>
#include <cmath>

#include "libshard/bytes.h"
#include "libshard/row_reader.h"

namespace shard {
namespace {

// The weights of one row's columns: those of the expert or slice whose row it is.
std::span<const float> ImportanceOf(const OutputTensor& tensor, uint64_t row) {
  const Encoding& encoding = *tensor.encoding;
  if (encoding.importance == nullptr) return {};
  if (encoding.rows_per_slice == 0) return encoding.importance->Row(0);
  const uint64_t slice = row / encoding.rows_per_slice;
  return encoding.importance->Row(tensor.experts.empty() ? slice : tensor.experts[slice]);
}

// All bits of the exponent set: infinity or NaN.
template <class T>
uint64_t CountFullExponents(std::span<const std::byte> bytes, T exponent) {
  uint64_t count = 0;
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    count += (LoadLe<T>(bytes.subspan(at)) & exponent) == exponent ? 1 : 0;
  }
  return count;
}

uint64_t CountNotFinite(std::span<const float> values) {
  return static_cast<uint64_t>(std::count_if(values.begin(), values.end(),
                                             [](float value) { return !std::isfinite(value); }));
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
  const uint64_t rows = in.size() / in_bytes;
  row_.resize(encoding.row_values);
  out.resize(rows * out_bytes);
  ValueReport report;
  for (uint64_t i = 0; i < rows; ++i) {
    encoding.from->decode(in.subspan(i * in_bytes, in_bytes), row_);
    report.not_finite += CountNotFinite(row_);
    encoding.to->encode(row_, ImportanceOf(tensor, first_row + i),
                        std::span(out).subspan(i * out_bytes, out_bytes));
  }
  return report;
}

Result<ValueReport> RowEncoder::EncodeRead(const OutputTensor& tensor, const SourceRange& rows,
                                           std::span<const std::byte> in,
                                           std::vector<std::byte>& out) {
  const Encoding& encoding = *tensor.encoding;
  const uint64_t count = rows.bytes;
  const uint64_t out_bytes = *encoding.to->BytesFor(encoding.row_values);
  out.resize(count * out_bytes);
  const RowBytes read{rows.offset, count, in};
  ValueReport report;
  if (encoding.repack) {
    SHARD_CHECK(encoding.reader->Repack(encoding.to, read, out, report.grid));
    return report;
  }
  row_.resize(count * encoding.row_values);
  SHARD_CHECK(encoding.reader->Decode(read, row_));
  for (uint64_t i = 0; i < count; ++i) {
    // Rows are counted in the whole tensor, where slices are those of all experts.
    std::span<const float> importance;
    if (encoding.importance != nullptr) {
      const uint64_t slice =
          encoding.rows_per_slice == 0 ? 0 : (rows.offset + i) / encoding.rows_per_slice;
      importance = encoding.importance->Row(slice);
    }
    encoding.to->encode(std::span(row_).subspan(i * encoding.row_values, encoding.row_values),
                        importance, std::span(out).subspan(i * out_bytes, out_bytes));
  }
  report.not_finite = CountNotFinite(row_);
  return report;
}

}  // namespace shard
