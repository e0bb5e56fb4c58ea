// Reordering the rows of a matrix without touching a byte: as source ranges in another order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/result.h"
#include "libshard/slice.h"

namespace shard {

// Which rows of a source matrix go into the target, and in which order.
enum class RowOrder : uint8_t {
  kAsIs,
  kRope,        // rows of each query head: the two halves interleaved
  kRopeKv,      // the same with the number of key heads
  kFirstHalf,   // gate of a fused gate_up
  kSecondHalf,  // up of it
};

struct RowRun {
  uint64_t first = 0, count = 0;
  bool operator==(const RowRun&) const = default;
};

struct RowLayout {
  RowOrder order = RowOrder::kAsIs;
  uint32_t heads = 0, kv_heads = 0;
};

// The rows in their new order, as runs of consecutive ones. Transformers rotates value i of a head
// together with value i + half, llama.cpp's "norm" rope with its neighbour, so for each head of
// `size` rows: new[2 i + j] = old[j size / 2 + i]. The error says only what was expected of the
// number of rows.
Result<std::vector<RowRun>> RowsOf(const RowLayout& layout, uint64_t rows);

struct RowPlacement {
  RowLayout layout;
  bool packed = false;  // axis 0 is the expert's; the order is that of each expert's rows
  uint64_t order = 0;   // SourceRange::order of the first range; the next expert's is one more
};

// Appends the ranges of a source tensor; `where` names it in errors. Returns the shape of what they
// hold. REQUIRES: the tensor has at least one dimension and one byte.
Result<std::vector<uint64_t>> AppendRows(const std::string& where, const TensorEntry& entry,
                                         const RowPlacement& placement,
                                         std::vector<SourceRange>& sources);

}  // namespace shard
