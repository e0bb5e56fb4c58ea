#include "libshard/encode_rows.h"

#include <algorithm>
#include <cmath>

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

}  // namespace

uint64_t RowEncoder::Encode(const OutputTensor& tensor, uint64_t first_row,
                            std::span<const std::byte> in, std::vector<std::byte>& out) {
  const Encoding& encoding = *tensor.encoding;
  const uint64_t in_bytes = *encoding.from->BytesFor(encoding.row_values);
  const uint64_t out_bytes = *encoding.to->BytesFor(encoding.row_values);
  const uint64_t rows = in.size() / in_bytes;
  row_.resize(encoding.row_values);
  out.resize(rows * out_bytes);
  uint64_t not_finite = 0;
  for (uint64_t i = 0; i < rows; ++i) {
    encoding.from->decode(in.subspan(i * in_bytes, in_bytes), row_);
    not_finite += static_cast<uint64_t>(
        std::count_if(row_.begin(), row_.end(), [](float value) { return !std::isfinite(value); }));
    encoding.to->encode(row_, ImportanceOf(tensor, first_row + i),
                        std::span(out).subspan(i * out_bytes, out_bytes));
  }
  return not_finite;
}

}  // namespace shard
