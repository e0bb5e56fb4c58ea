// Attention to the blocks of keys that an indexer picks (block_choice.h, pooled_blocks.h). Queries
// that see all of their blocks are left to the executor; the others are computed on the host.
#include <algorithm>

#include "libshard/base/parallel.h"
#include "runtime-shim/model/block_choice.h"
#include "runtime-shim/model/pooled_blocks.h"
#include "runtime-shim/model/rope.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

// Puts the indexer's keys of the segments' tokens into their caches, and returns its queries. Keys
// that are pooled are normed and rotated later.
Result<std::vector<float>> Forward::ProjectIndexer() {
  const AttentionWeights& weights = weights_->attention;
  const BlockShape& shape = spec_.blocks;
  const Rows normed = Now(scratch_.normed), turns = Now(scratch_.turns);
  const Rows queries = Now(scratch_.index_queries), keys = Now(scratch_.index_key);
  executor_.MatMul(weights.index_query, normed, queries);
  executor_.MatMul(weights.index_key, normed, keys);
  const uint32_t width = shape.width;
  const Rows heads = HeadsOf(queries, shape.heads);
  executor_.RmsNorm(heads, {weights.index_query_norm, {}, spec_.norm_eps}, heads);
  Rotation rotation{shape.heads, width, 0, spec_.rope.dims, spec_.rope.pairing};
  executor_.Rotate(queries, rotation, turns);
  if (!shape.pooled) {
    executor_.RmsNorm(keys, {weights.index_key_norm, {}, spec_.norm_eps}, keys);
    rotation.heads = 1;
    executor_.Rotate(keys, rotation, turns);
  }
  SHARD_CHECK(Mark("queries of the indexer", queries));
  SHARD_CHECK(Mark("keys of the indexer", keys));
  for (const Segment& segment : segments_) {
    std::vector<float>& cached = (*segment.caches)[layer_].index_keys;
    cached.resize((size_t{segment.past} + segment.count()) * width);
    SHARD_CHECK(executor_.Read(Own(keys, segment),
                               std::span(cached).subspan(size_t{segment.past} * width)));
  }
  std::vector<float> read(queries.values());
  SHARD_CHECK(executor_.Read(queries, read));
  return read;
}

std::vector<float> Forward::PooledKeys(const Segment& segment) const {
  const BlockShape& shape = spec_.blocks;
  const size_t width = shape.width, block = shape.block;
  const std::span<const float> keys = (*segment.caches)[layer_].index_keys;
  std::vector<float> pooled(keys.size() / (width * block) * width);
  std::vector<float> turns(spec_.rope.dims);
  for (size_t number = 0; number < pooled.size() / width; ++number) {
    FillTurns(spec_.rope, segment.turns->pairs, static_cast<uint32_t>(number * block), turns);
    PoolKeys(shape, {weights_->attention.pooled_norm, spec_.norm_eps, spec_.rope.pairing, turns},
             keys.subspan(number * block * width, block * width),
             std::span(pooled).subspan(number * width, width));
  }
  return pooled;
}

Result<Forward::SeenKeys> Forward::PickKeys(const Segment& segment,
                                            std::span<const float> index_queries,
                                            uint32_t first) const {
  const BlockShape& shape = spec_.blocks;
  const std::span<const float> keys = (*segment.caches)[layer_].index_keys;
  const uint32_t key_heads = spec_.layer[layer_].key_heads;
  const std::vector<float> pooled = shape.pooled ? PooledKeys(segment) : std::vector<float>();
  const size_t width = shape.width, all = shape.heads * width;
  SeenKeys seen(size_t{segment.count() - first} * key_heads);
  SHARD_CHECK(ParallelFor(segment.count() - first, 0, [&](size_t row) -> Status {
    const auto count = static_cast<uint32_t>(segment.past + first + row + 1);
    const auto queries = index_queries.subspan((segment.first_row + first + row) * all, all);
    if (shape.pooled) {
      const std::vector<uint32_t> own = PickPooled(shape, queries, pooled, count);
      std::fill_n(seen.begin() + static_cast<std::ptrdiff_t>(row * key_heads), key_heads, own);
      return Ok();
    }
    for (size_t head = 0; head < key_heads; ++head) {
      seen[row * key_heads + head] =
          KeysOfBlocks(shape,
                       PickBlocks(shape, queries.subspan(head * width, width),
                                  keys.first(size_t{count} * width)),
                       count);
    }
    return Ok();
  }));
  return seen;
}

// Replaces the rows of `mixed` whose queries do not see all of their blocks.
Status Forward::MixBlocks(const Segment& segment, std::span<const float> index_queries,
                          const Rows& queries, const Rows& mixed) {
  const BlockShape& shape = spec_.blocks;
  const LayerSpec& layer = spec_.layer[layer_];
  const LayerCache& cache = (*segment.caches)[layer_];
  const uint32_t end = segment.past + segment.count();
  uint32_t first = 0;  // of the segment's tokens
  while (first < segment.count() && SeesAllBlocks(shape, uint64_t{segment.past} + first + 1))
    ++first;
  if (first == segment.count()) return Ok();
  const uint32_t rows = segment.count() - first, group = layer.heads / layer.key_heads;
  const uint32_t key_stride = layer.key_heads * layer.key_width;
  const uint32_t value_stride = layer.key_heads * layer.value_width;
  std::vector<float> keys(size_t{end} * key_stride), values(size_t{end} * value_stride);
  std::vector<float> asked(size_t{rows} * layer.heads * layer.key_width);
  std::vector<float> out(size_t{rows} * layer.heads * layer.value_width);
  SHARD_CHECK(executor_.Read(cache.keys.Slice(0, end), keys));
  SHARD_CHECK(executor_.Read(cache.values.Slice(0, end), values));
  SHARD_CHECK(executor_.Read(queries.Slice(segment.first_row + first, rows), asked));
  SHARD_TRY(const SeenKeys seen, PickKeys(segment, index_queries, first));
  SHARD_CHECK(ParallelFor(seen.size(), 0, [&](size_t index) -> Status {
    const size_t row = index / layer.key_heads, head = index % layer.key_heads;
    const auto count = static_cast<uint32_t>(segment.past + first + row + 1);
    const size_t own = row * layer.heads + head * group;
    AttendToKeys({std::span(asked).subspan(own * layer.key_width, group * layer.key_width),
                  std::span(keys).subspan(head * layer.key_width),
                  std::span(values).subspan(head * layer.value_width), key_stride, value_stride,
                  layer.key_width, layer.value_width, count, spec_.attention_scale},
                 seen[index],
                 std::span(out).subspan(own * layer.value_width, group * layer.value_width));
    return Ok();
  }));
  executor_.Write(out, mixed.Slice(segment.first_row + first, rows));
  return Ok();
}

}  // namespace moepack::runtime
