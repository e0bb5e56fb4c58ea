// Attention to the blocks of keys that an indexer picks (block_choice.h). Queries that see all of
// their blocks are left to the executor; the others are computed on the host.
#include "libshard/base/parallel.h"
#include "runtime-shim/model/block_choice.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

// Puts the indexer's keys of the segments' tokens into their caches, and returns its queries.
Result<std::vector<float>> Forward::ProjectIndexer() {
  const AttentionWeights& weights = weights_->attention;
  const BlockShape& shape = spec_.blocks;
  const Rows normed = Now(scratch_.normed), turns = Now(scratch_.turns);
  const Rows queries = Now(scratch_.index_queries), keys = Now(scratch_.index_key);
  executor_.MatMul(weights.index_query, normed, queries);
  executor_.MatMul(weights.index_key, normed, keys);
  const uint32_t width = shape.width;
  const Rows heads = {queries.buffer, queries.offset, count_ * shape.heads, width, width};
  executor_.RmsNorm(heads, {weights.index_query_norm, {}, spec_.norm_eps}, heads);
  executor_.RmsNorm(keys, {weights.index_key_norm, {}, spec_.norm_eps}, keys);
  Rotation rotation{shape.heads, width, 0, spec_.rope.dims, spec_.rope.pairing};
  executor_.Rotate(queries, rotation, turns);
  rotation.heads = 1;
  executor_.Rotate(keys, rotation, turns);
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
  SHARD_CHECK(ParallelFor(size_t{rows} * layer.key_heads, 0, [&](size_t index) -> Status {
    const size_t row = index / layer.key_heads, head = index % layer.key_heads;
    const auto count = static_cast<uint32_t>(segment.past + first + row + 1);
    const size_t index_row = (segment.first_row + first + row) * shape.heads + head;
    const std::vector<uint32_t> blocks =
        PickBlocks(shape, index_queries.subspan(index_row * shape.width, shape.width),
                   std::span(cache.index_keys).first(size_t{count} * shape.width));
    const size_t own = row * layer.heads + head * group;
    AttendToBlocks({std::span(asked).subspan(own * layer.key_width, group * layer.key_width),
                    std::span(keys).subspan(head * layer.key_width),
                    std::span(values).subspan(head * layer.value_width), key_stride, value_stride,
                    layer.key_width, layer.value_width, count, spec_.attention_scale},
                   shape, blocks,
                   std::span(out).subspan(own * layer.value_width, group * layer.value_width));
    return Ok();
  }));
  executor_.Write(out, mixed.Slice(segment.first_row + first, rows));
  return Ok();
}

}  // namespace moepack::runtime
