// Decodes source rows to F32 and encodes them again: the step between reading and writing of a
// tensor whose type changes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/grid_report.h"
#include "libshard/pack/slice.h"

namespace moepack {

// F32, F16 and BF16: the types in which NaN and infinity can be seen by their bits.
bool IsPlainFloat(const quant::Format* format);
// How many of the values of such a type are NaN or infinite. `bytes` are whole values.
uint64_t CountNotFinite(const quant::Format* format, std::span<const std::byte> bytes);

// Holds the scratch rows of one thread.
class RowEncoder {
 public:
  // `in` holds whole rows of `tensor` from row `first_row` on, in tensor.encoding->from; their
  // bytes in encoding->to are written to `out`, which is made to fit. REQUIRES: tensor.encoding.
  ValueReport Encode(const OutputTensor& tensor, uint64_t first_row, std::span<const std::byte> in,
                     std::vector<std::byte>& out);
  // The same for rows of the tensor's reader, of what its AddReads asked for; fails as
  // RowReader::Decode does. REQUIRES: tensor.encoding->reader.
  Result<ValueReport> EncodeRead(const OutputTensor& tensor, const RowRange& rows,
                                 std::span<const std::byte> in, std::vector<std::byte>& out);

 private:
  std::vector<float> rows_;
};

}  // namespace moepack
