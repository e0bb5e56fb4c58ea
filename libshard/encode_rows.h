// Decodes source rows to F32 and encodes them again: the step between reading and writing of a
// tensor whose type changes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/slice.h"

namespace shard {

// Holds the scratch row of one thread.
class RowEncoder {
 public:
  // `in` holds whole rows of `tensor` from row `first_row` on, in tensor.encoding->from; their
  // bytes in encoding->to are written to `out`, which is made to fit. Returns how many of the
  // values were not finite. REQUIRES: tensor.encoding.
  uint64_t Encode(const OutputTensor& tensor, uint64_t first_row, std::span<const std::byte> in,
                  std::vector<std::byte>& out);

 private:
  std::vector<float> row_;
};

}  // namespace shard
