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

// Applies two encodings one after another. This reproduces a file that was made from another
// quantized file if only the sources of that other file exist.

// `first` is a tensor as it was made from its sources, and `second` is the same tensor made from
// the file that holds `first`. Returns `second` made from the sources of `first`: rows are encoded
// as in `first`, decoded, and encoded again. `number` must differ between the tensors of a packing
// run.
Result<OutputTensor> Recoded(const OutputTensor& first, OutputTensor second, uint64_t number);

}  // namespace moepack
