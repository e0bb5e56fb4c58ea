// Decodes source rows to F32 and encodes them in another type. Tensors whose type changes go
// through this step between reading and writing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/grid_report.h"
#include "libshard/pack/slice.h"

namespace moepack {

// True for F32, F16 and BF16, where the bits of a value alone show whether it is NaN or infinite.
bool IsPlainFloat(const quant::Format* format);
// Counts the values that are NaN or infinite. REQUIRES: IsPlainFloat(format), and `bytes` holds
// whole values.
uint64_t CountNotFinite(const quant::Format* format, std::span<const std::byte> bytes);

// Holds the scratch rows of one thread.
class RowEncoder {
 public:
  // Encodes whole rows. `in` holds them in tensor.encoding->from, starting at row `first_row` of
  // `tensor`; `out` is resized to hold them in encoding->to. REQUIRES: tensor.encoding.
  ValueReport Encode(const OutputTensor& tensor, uint64_t first_row, std::span<const std::byte> in,
                     std::vector<std::byte>& out);
  // Encodes `rows` of the tensor's reader; `in` holds the bytes that its AddReads asked for. Errors
  // are those of RowReader::Decode. REQUIRES: tensor.encoding->reader.
  Result<ValueReport> EncodeRead(const OutputTensor& tensor, const RowRange& rows,
                                 std::span<const std::byte> in, std::vector<std::byte>& out);

 private:
  std::vector<float> rows_;
};

}  // namespace moepack
