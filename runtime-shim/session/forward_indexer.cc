// Sparse attention: an indexer picks the positions that a token sees, and layers without one use
// what the last layer with one picked. Its projections run on the executor; the host scores
// (indexer.h).
#include "libshard/base/text/text.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

Status Forward::CheckPicks() const {
  const IndexerShape& shape = spec_.indexer;
  if (shape.heads == 0 || spec_.layer[layer_].own_indexer) return Ok();
  if (spec_.compressed.groups > 0) return Ok();  // layers share nothing there
  for (const Segment& segment : segments_) {
    if (segment.past + segment.count() <= shape.top_k) continue;
    return Error{Code::kUnsupported,
                 Cat(model_.weights().path, ": layer ", layer_, ": expected at most ", shape.top_k,
                     " tokens in a window, since the layer sees what the indexer of another one ",
                     "picks, found ", segment.past + segment.count())};
  }
  return Ok();
}

Status Forward::PickPositions(const Rows& low) {
  const IndexerShape& shape = spec_.indexer;
  if (shape.heads == 0 || !spec_.layer[layer_].own_indexer) return Ok();
  const IndexerWeights& weights = weights_->indexer;
  const auto project = [&](const Matrix& matrix, const Rows& x, const Rows& y,
                           std::vector<float>& out) -> Status {
    executor_.MatMul(matrix, x, y);
    out.resize(y.values());
    return executor_.Read(y, out);
  };
  std::vector<float> queries, keys, gains;
  const Rows normed = Now(scratch_.normed);
  SHARD_CHECK(project(weights.queries, low, Now(scratch_.index_queries), queries));
  SHARD_CHECK(project(weights.key, normed, Now(scratch_.index_key), keys));
  SHARD_CHECK(project(weights.weights, normed, Now(scratch_.index_weights), gains));
  const size_t width = shape.width, heads = shape.heads, dims = spec_.rope.dims;
  bool any = false;
  picked_.assign(count_, {});
  for (const Segment& segment : segments_) {
    std::vector<float>& cache = (*segment.caches)[layer_].index_keys;
    cache.resize(size_t{segment.past + segment.count()} * width);
    for (uint32_t i = 0; i < segment.count(); ++i) {
      const size_t row = segment.first_row + i, position = segment.past + i;
      const auto turns = std::span(turns_).subspan(row * dims, dims);
      const auto key = std::span(keys).subspan(row * width, width);
      FinishIndexKey(shape, weights.constants, turns, key);
      std::copy(key.begin(), key.end(),
                cache.begin() + static_cast<std::ptrdiff_t>(position * width));
      if (position < shape.top_k) continue;
      const auto query = std::span(queries).subspan(row * heads * width, heads * width);
      RotateIndex(shape, turns, query);
      picked_[row] =
          runtime::PickPositions(shape, {query, std::span(gains).subspan(row * heads, heads)},
                                 std::span(cache).first((position + 1) * width));
      any = true;
    }
  }
  if (!any) picked_.clear();
  return Ok();
}

void Forward::AttendPicked(const Segment& segment, const Rows& queries, const Rows& mixed) {
  const LayerCache& cache = (*segment.caches)[layer_];
  AttentionShape shape = ShapeOfAttention(segment);
  const Matrix& sinks = weights_->attention.sinks;
  // Positions ascend, so the rows that see everything come first.
  uint32_t all = 0;
  while (all < segment.count() && picked_[segment.first_row + all].empty()) ++all;
  const Rows own_queries = Own(queries, segment), own_mixed = Own(mixed, segment);
  if (all > 0) {
    executor_.Attention(shape, {own_queries.Slice(0, all), cache.keys, cache.values, sinks},
                        own_mixed.Slice(0, all));
  }
  for (uint32_t i = all; i < segment.count(); ++i) {
    const std::vector<uint32_t>& positions = picked_[segment.first_row + i];
    const auto count = static_cast<uint32_t>(positions.size());
    const Rows rows = scratch_.picked.Slice(0, count);
    executor_.Gather(cache.keys, positions, {}, rows);
    shape.past = count - 1;
    executor_.Attention(shape,
                        {own_queries.Slice(i, 1), rows, rows.Columns(0, spec_.latent.rank), sinks},
                        own_mixed.Slice(i, 1));
  }
}

}  // namespace moepack::runtime
