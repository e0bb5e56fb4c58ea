#include "libshard/convert/row_order.h"

#include "libshard/text.h"

namespace shard {
namespace {

// Rows beyond this would not fit SourceRange::order beside the number of the tensor.
constexpr uint64_t kMaxRows = 1u << 24;

Error WrongRows(const std::string& expected, uint64_t rows) {
  return {Code::kCorrupt, Cat("rows: expected ", expected, ", found ", rows)};
}

Result<std::vector<RowRun>> RopeRows(uint64_t heads, uint64_t rows) {
  if (heads == 0 || rows % (2 * heads) != 0 || rows > kMaxRows) {
    return WrongRows(Cat("an even number for each of ", heads, " heads"), rows);
  }
  const uint64_t half = rows / heads / 2;
  std::vector<RowRun> runs;
  runs.reserve(rows);
  for (uint64_t head = 0; head < heads; ++head) {
    for (uint64_t i = 0; i < half; ++i) {
      const uint64_t first = head * 2 * half + i;
      runs.push_back({first, 1});
      runs.push_back({first + half, 1});
    }
  }
  return runs;
}

}  // namespace

Result<std::vector<RowRun>> RowsOf(const RowLayout& layout, uint64_t rows) {
  switch (layout.order) {
    case RowOrder::kAsIs:
      break;
    case RowOrder::kRope:
      return RopeRows(layout.heads, rows);
    case RowOrder::kRopeKv:
      return RopeRows(layout.kv_heads, rows);
    case RowOrder::kFirstHalf:
    case RowOrder::kSecondHalf:
      if (rows % 2 != 0) return WrongRows("an even number (gate and up)", rows);
      return std::vector<RowRun>{{layout.order == RowOrder::kFirstHalf ? 0 : rows / 2, rows / 2}};
  }
  return std::vector<RowRun>{{0, rows}};
}

Result<std::vector<uint64_t>> AppendRows(const std::string& where, const TensorEntry& entry,
                                         const RowPlacement& placement,
                                         std::vector<SourceRange>& sources) {
  const uint64_t outer = placement.packed ? entry.shape[0] : 1;
  std::vector<uint64_t> inner(entry.shape.begin() + (placement.packed ? 1 : 0), entry.shape.end());
  // Whatever keeps its order is one row.
  const bool reordered = placement.layout.order != RowOrder::kAsIs && !inner.empty();
  Result<std::vector<RowRun>> runs = RowsOf(placement.layout, reordered ? inner[0] : 1);
  if (!runs) return std::move(runs).error().Within(where);
  const uint64_t row_bytes = entry.bytes / outer / (reordered ? inner[0] : 1);
  uint64_t held = 0;
  for (uint64_t expert = 0; expert < outer; ++expert) {
    held = 0;
    uint64_t number = 0;
    for (const RowRun& run : *runs) {
      const uint64_t row = expert * (reordered ? inner[0] : 1) + run.first;
      // Rows of one tensor ascend by their place in it, those of an expert with the expert.
      const uint64_t order = placement.order + (placement.packed ? expert : number++);
      sources.push_back({entry.file, entry.offset + row * row_bytes, run.count * row_bytes, order});
      held += run.count;
    }
  }
  if (reordered) inner[0] = held;
  if (placement.packed) inner.insert(inner.begin(), outer);
  return inner;
}

}  // namespace shard
