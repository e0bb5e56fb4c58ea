// Reorders the rows of a matrix without copying, by reordering source ranges.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/output_file.h"

namespace moepack {

// Which rows of a source matrix go into the target, and in which order.
enum class RowOrder : uint8_t {
  kAsIs,
  kRope,          // rows of each query head: the two halves interleaved
  kRopeKv,        // the same with the number of key heads
  kFirstHalf,     // gate of a fused gate_up
  kSecondHalf,    // up of it
  kEvenRows,      // gate of an interleaved gate_up (gpt-oss)
  kOddRows,       // up of it
  kMlaValues,     // of kv_b_proj: each head's value rows (DeepSeek)
  kQkvOfGroups,   // of in_proj_qkvz: all q rows, all k rows, all v rows (Qwen3-Next)
  kZOfGroups,     // of in_proj_qkvz: all z rows
  kTiledHeads,    // whole value heads, grouped by key head -> tiled (Qwen3.5)
  kTiledTail,     // the same for the last rows, after those of q and k
  kJoinedQuery,   // of query_key_value: the rows of all query heads, as kRope (Bailing)
  kJoinedKey,     // of all key heads, as kRopeKv
  kJoinedValue,   // of all value heads
  kFirstOfHeads,  // of a vector with at least one value per head: as many as there are heads
  kIndexQuery,    // of the indexer's joined projection: the rows of its query heads (Qwen3.8)
  kIndexKey,      // the rows after them
};

// Another change to the values. A row of a family's table has at most one.
enum class ValueRule : uint8_t {
  kNone,
  kPlusOne,          // norms that store the difference from one
  kMinusExp,         // A_log -> ssm_a
  kSqueeze,          // [c, 1, k] -> [c, k]
  kFlatten,          // [1, n] -> [n]
  kColumn,           // [n] -> [n, 1]
  kMinusExpColumn,   // kMinusExp of a kColumn
  kExpColumn,        // exp of a kColumn
  kByGroup,          // [n] -> [norm_groups, n / norm_groups]
  kTranspose,        // of each matrix (packed experts: of each expert)
  kTransposeFirst,   // transposed, then the first half of the rows (gate)
  kTransposeSecond,  // transposed, then the second half (up)
  kTransposeEven,    // transposed, then even rows (gate of unquantized gpt-oss)
  kTransposeOdd,     // transposed, then odd rows
  kMlaKeys,          // of kv_b_proj: each head's key rows, transposed: [heads, rank, key size]
  kTiledColumns,     // columns of whole value heads, grouped -> tiled
  kUnitColumns,      // columns divided by their lengths
  kFactor,           // one of two rows of the target: it is the product of both vectors
  kExpertIds,        // a table of expert ids, kept as integers
};

struct RowRun {
  uint64_t first = 0, count = 0;
  bool operator==(const RowRun&) const = default;
};

// The numbers and sizes of heads that orders and rules need; 0 if a model has none.
struct HeadShape {
  uint32_t heads = 0, kv_heads = 0;
  uint32_t mla_key_size = 0, mla_value_size = 0;          // qk_nope_head_dim, v_head_dim
  uint32_t linear_key_heads = 0, linear_value_heads = 0;  // of linear attention
  uint32_t linear_key_size = 0, linear_value_size = 0;
  uint32_t index_heads = 0, index_size = 0;  // of an indexer's queries
  uint32_t norm_groups = 0;                  // of Mamba-2: each part of its output has its own norm
};

struct RowLayout {
  RowOrder order = RowOrder::kAsIs;
  HeadShape shape = {};
};

// Returns the rows in their new order, as runs of consecutive rows. Transformers rotates value i of
// a head together with value i + half, and llama.cpp's "norm" rope with its neighbour, so for each
// head of `size` rows new[2 i + j] = old[j size / 2 + i]. The error only says what number of rows
// was expected.
Result<std::vector<RowRun>> RowsOf(const RowLayout& layout, uint64_t rows);

// Returns the number of every row of the runs.
std::vector<uint64_t> RowsOfRuns(const std::vector<RowRun>& runs);

struct RowPlacement {
  RowLayout layout;
  bool packed = false;  // axis 0 is the expert axis, and the order applies to each expert's rows
  // SourceRange::order of the first range; that of each further expert is one higher
  uint64_t order = 0;
};

// Appends the ranges of a source tensor, and returns the shape of the rows that they select.
// `where` names the tensor in errors. REQUIRES: it has at least one dimension and one byte.
Result<std::vector<uint64_t>> AppendRows(const std::string& where, const TensorEntry& entry,
                                         const RowPlacement& placement,
                                         std::vector<SourceRange>& sources);

}  // namespace moepack
