#include "libshard/convert/row_order.h"

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// More rows would not fit in the 24 bits that OrderOf leaves beside the tensor's number.
constexpr uint64_t kMaxRows = 1u << 24;

Error WrongRows(const std::string& expected, uint64_t rows) {
  return {Code::kCorrupt, Cat("rows: expected ", expected, ", found ", rows)};
}

Status CheckLinearHeads(const HeadShape& shape) {
  if (shape.linear_key_heads > 0 && shape.linear_value_heads > 0 &&
      shape.linear_value_heads % shape.linear_key_heads == 0) {
    return Ok();
  }
  return Error{Code::kCorrupt,
               Cat("heads of linear attention: expected a multiple of ", shape.linear_key_heads,
                   " (key heads), found ", shape.linear_value_heads)};
}

uint32_t ValueHeadsPerKey(const HeadShape& shape) {
  return shape.linear_value_heads / shape.linear_key_heads;
}

Result<std::vector<RowRun>> RopeRows(uint64_t heads, uint64_t rows) {
  if (heads == 0 || rows % (2 * heads) != 0 || rows > kMaxRows) {
    return WrongRows(Cat("an even number for each of ", Plural(heads, "head")), rows);
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

Result<std::vector<RowRun>> EveryOther(uint64_t first, uint64_t rows) {
  if (rows % 2 != 0 || rows > kMaxRows) return WrongRows("an even number (gate and up)", rows);
  std::vector<RowRun> runs;
  runs.reserve(rows / 2);
  for (uint64_t row = first; row < rows; row += 2) runs.push_back({row, 1});
  return runs;
}

Result<std::vector<RowRun>> MlaValueRows(const HeadShape& shape, uint64_t rows) {
  const uint64_t head = uint64_t{shape.mla_key_size} + shape.mla_value_size;
  if (shape.heads == 0 || shape.mla_value_size == 0 || rows != shape.heads * head) {
    return WrongRows(Cat(head, " for each of ", Plural(shape.heads, "head")), rows);
  }
  std::vector<RowRun> runs;
  for (uint64_t i = 0; i < shape.heads; ++i) {
    runs.push_back({i * head + shape.mla_key_size, shape.mla_value_size});
  }
  return runs;
}

// Qwen3-Next's in_proj_qkvz: each group has the queries and keys of one key head, then values and
// gates of all its value heads.
Result<std::vector<RowRun>> GroupRows(RowOrder order, const HeadShape& shape, uint64_t rows) {
  SHARD_CHECK(CheckLinearHeads(shape));
  const uint64_t keys = shape.linear_key_size;
  const uint64_t values = uint64_t{ValueHeadsPerKey(shape)} * shape.linear_value_size;
  const uint64_t group = 2 * keys + 2 * values;
  if (rows != shape.linear_key_heads * group || group == 0) {
    return WrongRows(Cat(group, " for each of ", shape.linear_key_heads, " key heads"), rows);
  }
  std::vector<RowRun> runs;
  const auto add = [&](uint64_t first, uint64_t count) {
    for (uint64_t i = 0; i < shape.linear_key_heads; ++i)
      runs.push_back({i * group + first, count});
  };
  if (order == RowOrder::kZOfGroups) {
    add(2 * keys + values, values);
    return runs;
  }
  add(0, keys);
  add(keys, keys);
  add(2 * keys, values);
  return runs;
}

// Adds heads of `size` rows from row `first` on. Old head g * r + j is value head j of key head g;
// the new order has j outside and g inside.
void AddTiledHeads(const HeadShape& shape, uint64_t first, uint64_t size,
                   std::vector<RowRun>& runs) {
  const uint64_t per_key = ValueHeadsPerKey(shape);
  for (uint64_t j = 0; j < per_key; ++j) {
    for (uint64_t g = 0; g < shape.linear_key_heads; ++g) {
      runs.push_back({first + (g * per_key + j) * size, size});
    }
  }
}

Result<std::vector<RowRun>> TiledRows(const HeadShape& shape, uint64_t rows) {
  SHARD_CHECK(CheckLinearHeads(shape));
  if (rows == 0 || rows % shape.linear_value_heads != 0) {
    return WrongRows(Cat("the same number for each of ", shape.linear_value_heads, " value heads"),
                     rows);
  }
  std::vector<RowRun> runs;
  AddTiledHeads(shape, 0, rows / shape.linear_value_heads, runs);
  return runs;
}

Result<std::vector<RowRun>> TiledTailRows(const HeadShape& shape, uint64_t rows) {
  SHARD_CHECK(CheckLinearHeads(shape));
  const uint64_t before = uint64_t{2} * shape.linear_key_heads * shape.linear_key_size;
  const uint64_t tail = uint64_t{shape.linear_value_heads} * shape.linear_value_size;
  if (tail == 0 || rows != before + tail) {
    return WrongRows(Cat(before, " of queries and keys and ", tail, " of values"), rows);
  }
  std::vector<RowRun> runs;
  if (before > 0) runs.push_back({0, before});
  AddTiledHeads(shape, before, shape.linear_value_size, runs);
  return runs;
}

// Query heads, key heads and value heads stacked in this order, all of one size.
Result<std::vector<RowRun>> JoinedRows(RowOrder order, const HeadShape& shape, uint64_t rows) {
  const uint64_t heads = uint64_t{shape.heads} + 2 * uint64_t{shape.kv_heads};
  if (shape.kv_heads == 0 || rows == 0 || rows % heads != 0) {
    return WrongRows(Cat("the same number for each of ", shape.heads, " query heads and ",
                         shape.kv_heads, " key and value heads"),
                     rows);
  }
  const uint64_t head = rows / heads, keys = shape.kv_heads * head, queries = shape.heads * head;
  if (order == RowOrder::kJoinedValue) return std::vector<RowRun>{{queries + keys, keys}};
  const bool query = order == RowOrder::kJoinedQuery;
  SHARD_TRY(std::vector<RowRun> runs,
            query ? RopeRows(shape.heads, queries) : RopeRows(shape.kv_heads, keys));
  if (query) return runs;
  for (RowRun& run : runs) run.first += queries;
  return runs;
}

// Query heads of an indexer, and then its keys.
Result<std::vector<RowRun>> IndexRows(RowOrder order, const HeadShape& shape, uint64_t rows) {
  const uint64_t queries = uint64_t{shape.index_heads} * shape.index_size;
  if (queries == 0 || rows != queries + shape.index_size) {
    return WrongRows(Cat(shape.index_size, " for each of ", Plural(shape.index_heads, "query head"),
                         " and the keys"),
                     rows);
  }
  if (order == RowOrder::kIndexQuery) return std::vector<RowRun>{{0, queries}};
  return std::vector<RowRun>{{queries, shape.index_size}};
}

}  // namespace

Result<std::vector<RowRun>> RowsOf(const RowLayout& layout, uint64_t rows) {
  switch (layout.order) {
    case RowOrder::kAsIs:
      break;
    case RowOrder::kRope:
      return RopeRows(layout.shape.heads, rows);
    case RowOrder::kRopeKv:
      return RopeRows(layout.shape.kv_heads, rows);
    case RowOrder::kFirstHalf:
    case RowOrder::kSecondHalf:
      if (rows % 2 != 0) return WrongRows("an even number (gate and up)", rows);
      return std::vector<RowRun>{{layout.order == RowOrder::kFirstHalf ? 0 : rows / 2, rows / 2}};
    case RowOrder::kEvenRows:
      return EveryOther(0, rows);
    case RowOrder::kOddRows:
      return EveryOther(1, rows);
    case RowOrder::kMlaValues:
      return MlaValueRows(layout.shape, rows);
    case RowOrder::kQkvOfGroups:
    case RowOrder::kZOfGroups:
      return GroupRows(layout.order, layout.shape, rows);
    case RowOrder::kTiledHeads:
      return TiledRows(layout.shape, rows);
    case RowOrder::kTiledTail:
      return TiledTailRows(layout.shape, rows);
    case RowOrder::kJoinedQuery:
    case RowOrder::kJoinedKey:
    case RowOrder::kJoinedValue:
      return JoinedRows(layout.order, layout.shape, rows);
    case RowOrder::kFirstOfHeads:
      if (rows < layout.shape.heads)
        return WrongRows(Cat("at least ", layout.shape.heads, ", one per head"), rows);
      return std::vector<RowRun>{{0, layout.shape.heads}};
    case RowOrder::kIndexQuery:
    case RowOrder::kIndexKey:
      return IndexRows(layout.order, layout.shape, rows);
  }
  return std::vector<RowRun>{{0, rows}};
}

std::vector<uint64_t> RowsOfRuns(const std::vector<RowRun>& runs) {
  std::vector<uint64_t> rows;
  for (const RowRun& run : runs) {
    for (uint64_t i = 0; i < run.count; ++i) rows.push_back(run.first + i);
  }
  return rows;
}

Result<std::vector<uint64_t>> AppendRows(const std::string& where, const TensorEntry& entry,
                                         const RowPlacement& placement,
                                         std::vector<SourceRange>& sources) {
  const uint64_t outer = placement.packed ? entry.shape[0] : 1;
  std::vector<uint64_t> inner(entry.shape.begin() + (placement.packed ? 1 : 0), entry.shape.end());
  // Rows that keep their order count as one long row.
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
      // Ranges of one tensor ascend by position, so that packing reads them in order; those of
      // packed experts ascend by expert.
      const uint64_t order = placement.order + (placement.packed ? expert : number++);
      sources.push_back({entry.file, entry.offset + row * row_bytes, run.count * row_bytes, order});
      held += run.count;
    }
  }
  if (reordered) inner[0] = held;
  if (placement.packed) inner.insert(inner.begin(), outer);
  return inner;
}

}  // namespace moepack
