// Attention of DeepSeek-V4. All heads share one key per token, which is its value, too. A token
// sees a window, and beyond it keys that are made of whole blocks of tokens (key_compressor.h): all
// of them, or those that an indexer picks by compressed keys of its own. Projections and attention
// run on the executor; the host compresses keys and picks them.
#include <algorithm>

#include "runtime-shim/model/indexer.h"
#include "runtime-shim/model/key_compressor.h"
#include "runtime-shim/model/rope.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {
namespace {

// What the projections of a compressor make of the rows of a pass.
struct CompressorInputs {
  std::vector<float> values, scores;
};

// Adds a segment's tokens; returns the keys of the blocks that they complete. A key is rotated as
// the first token of its block is, in its last values.
std::vector<float> CompressRows(const CompressorShape& shape, const CompressorConstants& constants,
                                const CompressorInputs& inputs, const RopeSpec& rope,
                                const Segment& segment, CompressorState& state) {
  const size_t columns = shape.columns();
  std::vector<float> keys, key(shape.width), turns(rope.dims);
  for (uint32_t i = 0; i < segment.count(); ++i) {
    const size_t first = (segment.first_row + i) * columns;
    const CompressorToken token = {std::span(inputs.values).subspan(first, columns),
                                   std::span(inputs.scores).subspan(first, columns)};
    if (!CompressToken(shape, constants, token, state, key)) continue;
    FillTurns(rope, segment.turns->pairs, state.length - shape.ratio, turns);
    RotateIndex({.width = rope.dims, .dims = rope.dims}, turns, std::span(key).last(rope.dims));
    keys.insert(keys.end(), key.begin(), key.end());
  }
  return keys;
}

}  // namespace

Status Forward::ProjectCompressed() {
  const CompressedWeights& weights = weights_->compressed;
  const LayerSpec& layer = spec_.layer[layer_];
  const RopeSpec& rope = spec_.RopeOf(layer_);
  const Rows normed = Now(scratch_.normed), queries = QueriesNow();
  const CacheRows rows = NewCacheRows();
  const Rows low = Dense(scratch_.query_low, weights.query_down.rows);
  executor_.MatMul(weights.query_down, normed, low);
  executor_.RmsNorm(low, {weights.query_down_norm, {}, spec_.norm_eps}, low);
  executor_.MatMul(weights.query_up, low, queries);
  const Rows heads = HeadsOf(queries, layer.heads);
  executor_.RmsNorm(heads, {{}, {}, spec_.norm_eps}, heads);
  executor_.MatMul(weights.key, normed, rows.keys);
  executor_.RmsNorm(rows.keys, {weights.key_norm, {}, spec_.norm_eps}, rows.keys);
  SHARD_CHECK(Mark("queries", queries));
  SHARD_CHECK(Mark("keys", rows.keys));
  const Rows turns = Now(layer.local_rope ? scratch_.local_turns : scratch_.turns);
  Rotation rotation{layer.heads, layer.key_width, layer.key_width - rope.dims, rope.dims,
                    rope.pairing};
  executor_.Rotate(queries, rotation, turns);
  rotation.heads = 1;
  executor_.Rotate(rows.keys, rotation, turns);
  StoreCacheRows(rows);
  return Ok();
}

// Puts the keys of the blocks that the segments complete into their caches.
Status Forward::CompressKeys() {
  const CompressedWeights& weights = weights_->compressed;
  const bool indexed = spec_.layer[layer_].own_indexer;
  CompressorInputs own, index;
  SHARD_CHECK(ReadProjection(weights.compressor.values, Now(scratch_.normed), own.values));
  SHARD_CHECK(ReadProjection(weights.compressor.scores, Now(scratch_.normed), own.scores));
  if (indexed) {
    SHARD_CHECK(
        ReadProjection(weights.index_compressor.values, Now(scratch_.normed), index.values));
    SHARD_CHECK(
        ReadProjection(weights.index_compressor.scores, Now(scratch_.normed), index.scores));
  }
  const CompressorShape shape = spec_.CompressorOf(layer_);
  for (const Segment& segment : segments_) {
    LayerCache& cache = (*segment.caches)[layer_];
    const uint32_t first = segment.past / shape.ratio;
    const std::vector<float> keys = CompressRows(shape, weights.compressor.constants, own,
                                                 spec_.rope, segment, cache.compressor);
    const auto count = static_cast<uint32_t>(keys.size() / shape.width);
    if (count > 0) executor_.Write(keys, cache.compressed_keys.Slice(first, count));
    if (!indexed) continue;
    const std::vector<float> added =
        CompressRows(spec_.IndexCompressorOf(layer_), weights.index_compressor.constants, index,
                     spec_.rope, segment, cache.index_compressor);
    cache.index_keys.resize(size_t{first} * spec_.indexer.width);
    cache.index_keys.insert(cache.index_keys.end(), added.begin(), added.end());
  }
  return Ok();
}

// Reads the queries only if the indexer has to pick for some row. The products are made in any
// case, so that an importance matrix has all of them.
Status Forward::ProjectIndexQueries() {
  const IndexerShape& shape = spec_.indexer;
  const LayerSpec& layer = spec_.layer[layer_];
  if (!layer.own_indexer) return Ok();
  const CompressedWeights& weights = weights_->compressed;
  const Rows queries = Now(scratch_.index_queries), gains = Now(scratch_.index_weights);
  executor_.MatMul(weights.index_queries, Dense(scratch_.query_low, weights.query_down.rows),
                   queries);
  const uint32_t dims = spec_.rope.dims;
  executor_.Rotate(queries,
                   {shape.heads, shape.width, shape.width - dims, dims, spec_.rope.pairing},
                   Now(scratch_.turns));
  SHARD_CHECK(Mark("queries of the indexer", queries));
  executor_.MatMul(weights.index_weights, Now(scratch_.normed), gains);
  const bool picks = std::any_of(segments_.begin(), segments_.end(), [&](const Segment& segment) {
    return (segment.past + segment.count()) / layer.ratio > shape.top_k;
  });
  if (!picks) return Ok();
  index_queries_.resize(queries.values());
  index_gains_.resize(gains.values());
  SHARD_CHECK(executor_.Read(queries, index_queries_));
  return executor_.Read(gains, index_gains_);
}

// Attention of one of the segment's tokens to its window and to compressed keys.
void Forward::AttendBoth(const Segment& segment, uint32_t index) {
  const LayerSpec& layer = spec_.layer[layer_];
  const LayerCache& cache = (*segment.caches)[layer_];
  const uint32_t end = segment.past + index + 1, row = segment.first_row + index;
  const uint32_t near = std::min(end, layer.window), blocks = end / layer.ratio;
  const Rows seen = scratch_.picked;
  executor_.Copy(cache.keys.Slice(end - near, near), seen.Slice(0, near));
  uint32_t count = near + blocks;
  const IndexerShape& indexer = spec_.indexer;
  if (layer.own_indexer && blocks > indexer.top_k) {
    const size_t width = size_t{indexer.heads} * indexer.width;
    const IndexQuery query = {
        std::span(index_queries_).subspan(row * width, width),
        std::span(index_gains_).subspan(size_t{row} * indexer.heads, indexer.heads)};
    const std::vector<uint32_t> picked = runtime::PickPositions(
        indexer, query, std::span(cache.index_keys).first(size_t{blocks} * indexer.width));
    count = near + static_cast<uint32_t>(picked.size());
    executor_.Gather(cache.compressed_keys, picked, {}, seen.Slice(near, count - near));
  } else {
    executor_.Copy(cache.compressed_keys.Slice(0, blocks), seen.Slice(near, blocks));
  }
  AttentionShape shape = ShapeOfAttention(segment);
  shape.past = count - 1;
  shape.window = 0;
  const Rows keys = seen.Slice(0, count);
  executor_.Attention(shape, {QueriesNow().Slice(row, 1), keys, keys, weights_->attention.sinks},
                      AttendedNow().Slice(row, 1));
}

Status Forward::MixCompressed() {
  const uint32_t ratio = spec_.layer[layer_].ratio;
  const Rows queries = QueriesNow(), mixed = AttendedNow();
  for (const Segment& segment : segments_) {
    const LayerCache& cache = (*segment.caches)[layer_];
    // Positions ascend, so the rows that see no compressed key come first.
    uint32_t plain = 0;
    while (plain < segment.count() && (ratio == 0 || segment.past + plain + 1 < ratio)) ++plain;
    if (plain > 0) {
      executor_.Attention(ShapeOfAttention(segment),
                          {Own(queries, segment).Slice(0, plain), cache.keys, cache.values,
                           weights_->attention.sinks},
                          Own(mixed, segment).Slice(0, plain));
    }
    for (uint32_t i = plain; i < segment.count(); ++i) AttendBoth(segment, i);
  }
  return Mark("attention", mixed);
}

// Turns the results back, since values are rotated keys, and projects them in groups of heads.
Status Forward::ProjectGroups() {
  const LayerSpec& layer = spec_.layer[layer_];
  const RopeSpec& rope = spec_.RopeOf(layer_);
  const Rows mixed = AttendedNow(), low = Now(scratch_.output_low);
  executor_.Rotate(
      mixed,
      {layer.heads, layer.value_width, layer.value_width - rope.dims, rope.dims, rope.pairing},
      Now(layer.local_rope ? scratch_.local_back_turns : scratch_.back_turns));
  const auto [groups, rank] = spec_.compressed;
  const uint32_t width = mixed.width / groups;
  for (uint32_t group = 0; group < groups; ++group) {
    executor_.MatMul(weights_->compressed.output_down.Slice(group * rank, rank),
                     mixed.Columns(group * width, width), low.Columns(group * rank, rank));
  }
  executor_.MatMul(weights_->compressed.output_up, low, Now(scratch_.branch));
  return Mark("attention output", Now(scratch_.branch));
}

Status Forward::AttendCompressed() {
  SHARD_CHECK(ProjectCompressed());
  if (spec_.layer[layer_].ratio > 0) {
    SHARD_CHECK(CompressKeys());
    SHARD_CHECK(ProjectIndexQueries());
  }
  SHARD_CHECK(MixCompressed());
  return ProjectGroups();
}

}  // namespace moepack::runtime
