#include <cmath>

#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

namespace {

// Returns head `head` of every row.
Rows HeadOf(const Rows& rows, uint32_t head, uint32_t width) {
  return rows.Columns(head * width, width);
}

}  // namespace

Rows Forward::QueriesNow() const {
  if (spec_.is_latent()) return Now(scratch_.queries);
  const LayerSpec& layer = spec_.layer[layer_];
  return Dense(scratch_.queries, layer.heads * layer.key_width);
}

Rows Forward::AttendedNow() const {
  if (spec_.is_latent()) return Now(scratch_.attended);
  const LayerSpec& layer = spec_.layer[layer_];
  return Dense(scratch_.attended, layer.heads * layer.value_width);
}

AttentionShape Forward::ShapeOfAttention(const Segment& segment) const {
  const LayerSpec& layer = spec_.layer[layer_];
  AttentionShape shape;
  shape.heads = layer.heads;
  shape.key_heads = spec_.is_latent() ? 1 : layer.key_heads;
  shape.key_width = spec_.is_latent() ? spec_.latent.rank + spec_.rope.dims : layer.key_width;
  shape.value_width = spec_.is_latent() ? spec_.latent.rank : layer.value_width;
  shape.past = segment.past;
  shape.window = layer.window;
  shape.chunk = layer.chunk;
  shape.scale = spec_.attention_scale;
  return shape;
}

Forward::CacheRows Forward::NewCacheRows() const {
  if (segments_.size() > 1 && spec_.is_latent()) return {Now(scratch_.keys), {}};
  if (segments_.size() > 1) {
    const LayerSpec& layer = spec_.layer[layer_];
    return {Dense(scratch_.keys, layer.key_heads * layer.key_width),
            Dense(scratch_.values, layer.key_heads * layer.value_width)};
  }
  const Segment& only = segments_.front();
  const LayerCache& cache = (*only.caches)[layer_];
  return {cache.keys.Slice(only.past, count_), cache.values.Slice(only.past, count_)};
}

void Forward::StoreCacheRows(const CacheRows& rows) {
  if (segments_.size() == 1) return;  // they are in the cache
  for (const Segment& segment : segments_) {
    const LayerCache& cache = (*segment.caches)[layer_];
    executor_.Copy(Own(rows.keys, segment), cache.keys.Slice(segment.past, segment.count()));
    if (spec_.values_in_keys()) continue;
    executor_.Copy(Own(rows.values, segment), cache.values.Slice(segment.past, segment.count()));
  }
}

Status Forward::NormHeads(const Rows& queries, const Rows& keys) {
  const AttentionWeights& weights = weights_->attention;
  const bool whole = spec_.norm_whole_projection;
  if (weights.query_norm) {
    const Rows rows = whole ? queries : HeadsOf(queries, spec_.layer[layer_].heads);
    executor_.RmsNorm(rows, {weights.query_norm, {}, spec_.norm_eps}, rows);
  }
  if (weights.key_norm) {
    const Rows rows = whole ? keys : HeadsOf(keys, spec_.layer[layer_].key_heads);
    executor_.RmsNorm(rows, {weights.key_norm, {}, spec_.norm_eps}, rows);
  }
  return Mark("norm of queries and keys", queries);
}

void Forward::ScaleByPosition(const Rows& queries) {
  std::vector<float> factors(count_);
  for (uint32_t row = 0; row < count_; ++row) {
    // Llama-4's formula; see ModelSpec::temperature.
    const double chunks = std::floor((positions_[row] + 1.0) / spec_.temperature_floor);
    factors[row] = static_cast<float>(1 + spec_.temperature * std::log(1 + chunks));
  }
  executor_.ScaleRows(queries, factors);
}

void Forward::ProjectQueries(const Rows& normed, const Rows& queries) {
  if (!spec_.gated_queries) {
    executor_.Project(weights_->attention.query, normed, queries);
    return;
  }
  // Each head's queries, then its gate.
  const Rows wide = Now(scratch_.query_wide);
  executor_.Project(weights_->attention.query, normed, wide);
  const Rows pairs = HeadsOf(wide, spec_.layer[layer_].heads);
  executor_.Copy(pairs.Columns(0, spec_.key_width), HeadsOf(queries, spec_.layer[layer_].heads));
}

void Forward::ProjectValues(const Rows& normed, const CacheRows& rows) {
  const Linear& value = weights_->attention.value;
  if (value.weight) {
    executor_.Project(value, normed, rows.values);
  } else {
    executor_.Copy(rows.keys, rows.values);  // before the keys are normed and rotated
  }
  if (!spec_.norm_values) return;
  const Rows heads = HeadsOf(rows.values, spec_.layer[layer_].key_heads);
  executor_.RmsNorm(heads, {{}, {}, spec_.norm_eps}, heads);
}

Status Forward::ProjectHeads() {
  const AttentionWeights& weights = weights_->attention;
  const LayerSpec& layer = spec_.layer[layer_];
  const Rows normed = Now(scratch_.normed), queries = QueriesNow();
  const auto [keys, values] = NewCacheRows();
  ProjectQueries(normed, queries);
  executor_.Project(weights.key, normed, keys);
  ProjectValues(normed, {keys, values});
  SHARD_CHECK(Mark("queries", queries));
  SHARD_CHECK(Mark("keys", keys));
  SHARD_CHECK(Mark("values", values));
  if (!spec_.norm_after_rope) SHARD_CHECK(NormHeads(queries, keys));
  if (!layer.rope) {
    if (spec_.temperature != 0) ScaleByPosition(queries);
    return Ok();
  }
  const RopeSpec& rope = spec_.RopeOf(layer_);
  const Rows turns = Now(layer.local_rope ? scratch_.local_turns : scratch_.turns);
  Rotation rotation{layer.heads, layer.key_width, 0, rope.dims, rope.pairing};
  executor_.Rotate(queries, rotation, turns);
  rotation.heads = layer.key_heads;
  executor_.Rotate(keys, rotation, turns);
  if (spec_.norm_after_rope) return NormHeads(queries, keys);
  if (!spec_.norm_heads_after_rope) return Ok();
  for (const Rows& rows : {HeadsOf(queries, layer.heads), HeadsOf(keys, layer.key_heads)})
    executor_.RmsNorm(rows, {{}, {}, spec_.norm_eps}, rows);
  return Mark("norm of rotated queries", queries);
}

// Multi-head latent attention, as in section 2.1.2 of DeepSeek-V2 (arXiv 2405.04434). The
// up-projection of the keys is applied to the queries instead, so that the cache holds one row
// [latent, rotated part] for all heads:
//   q_h . k_h = (K_h^T q_nope_h) . latent + q_rope_h . k_rope
Status Forward::ProjectLatent() {
  const AttentionWeights& weights = weights_->attention;
  const ModelSpec::Latent& latent = spec_.latent;
  const uint32_t dims = spec_.rope.dims, cached = latent.rank + dims;
  const Rows normed = Now(scratch_.normed), wide = Now(scratch_.query_wide);
  if (weights.query_down) {
    const Rows low = Now(scratch_.query_low).Columns(0, weights.query_down.rows);
    executor_.MatMul(weights.query_down, normed, low);
    executor_.RmsNorm(low, {weights.query_down_norm, {}, spec_.norm_eps}, low);
    executor_.MatMul(weights.query_up, low, wide);
    SHARD_CHECK(PickPositions(low));
  } else {
    executor_.Project(weights.query, normed, wide);
  }
  SHARD_CHECK(Mark("queries", wide));
  const Rows turns = Now(scratch_.turns);
  const bool rotates = spec_.layer[layer_].rope;
  if (rotates)
    executor_.Rotate(
        wide, {spec_.heads, spec_.key_width, latent.nope_width, dims, spec_.rope.pairing}, turns);

  const Rows keys = NewCacheRows().keys;
  executor_.MatMul(weights.latent_down, normed, keys);
  const Rows compressed = keys.Columns(0, latent.rank);
  executor_.RmsNorm(compressed, {weights.latent_norm, {}, spec_.norm_eps}, compressed);
  if (rotates)
    executor_.Rotate(keys.Columns(latent.rank, dims), {1, dims, 0, dims, spec_.rope.pairing},
                     turns);
  SHARD_CHECK(Mark("latent keys", keys));

  const Rows queries = Now(scratch_.queries);
  for (uint32_t head = 0; head < spec_.heads; ++head) {
    const Rows from = HeadOf(wide, head, spec_.key_width), to = HeadOf(queries, head, cached);
    executor_.MatMul(weights.key_up.Slice(head * latent.rank, latent.rank),
                     from.Columns(0, latent.nope_width), to.Columns(0, latent.rank));
    executor_.Copy(from.Columns(latent.nope_width, dims), to.Columns(latent.rank, dims));
  }
  return Mark("queries of the latent", queries);
}

Status Forward::MixHeads() {
  StoreCacheRows(NewCacheRows());
  const bool latent = spec_.is_latent();
  const Rows mixed = latent ? Now(scratch_.latent_out) : AttendedNow();
  const Rows queries = QueriesNow();
  std::vector<float> index_queries;
  if (spec_.layer[layer_].picks_blocks) {
    SHARD_TRY(index_queries, ProjectIndexer());
  }
  for (const Segment& segment : segments_) {
    const LayerCache& cache = (*segment.caches)[layer_];
    if (!picked_.empty()) {
      AttendPicked(segment, queries, mixed);
      continue;
    }
    executor_.Attention(
        ShapeOfAttention(segment),
        {Own(queries, segment), cache.keys, cache.values, weights_->attention.sinks},
        Own(mixed, segment));
    if (spec_.layer[layer_].picks_blocks)
      SHARD_CHECK(MixBlocks(segment, index_queries, queries, mixed));
  }
  if (!latent) return Mark("attention", mixed);
  const uint32_t rank = spec_.latent.rank, width = spec_.latent.value_width;
  // Attention is linear in the values, so their up-projection is applied to its result, and not to
  // every position of the cache.
  for (uint32_t head = 0; head < spec_.heads; ++head) {
    executor_.MatMul(weights_->attention.value_up.Slice(head * width, width),
                     HeadOf(mixed, head, rank), HeadOf(Now(scratch_.attended), head, width));
  }
  return Mark("attention", Now(scratch_.attended));
}

// The gates multiply the results of whole heads, or of single values.
Status Forward::ScaleBySoftplus(const Rows& attended) {
  const Matrix& weights = weights_->attention.head_gate;
  const Rows gate = Dense(scratch_.head_gates, weights.rows);
  executor_.MatMul(weights, Now(scratch_.normed), gate);
  std::vector<float> factors(gate.values());
  SHARD_CHECK(executor_.Read(gate, factors));
  for (float& factor : factors) factor = Softplus(factor);
  executor_.ScaleRows(HeadsOf(attended, weights.rows), factors);
  return Ok();
}

// The input of the output projection.
Rows Forward::GateHeads() {
  const Rows attended = AttendedNow();
  const uint32_t heads = spec_.layer[layer_].heads;
  if (weights_->attention.head_gate && !spec_.softplus_gates) {
    const Rows gate = Dense(scratch_.head_gates, heads);
    executor_.MatMul(weights_->attention.head_gate, Now(scratch_.normed), gate);
    executor_.ScaleBySigmoid(HeadsOf(attended, heads), HeadsOf(gate, heads));
  }
  if (spec_.gated_attention) {
    const Rows gate = Dense(scratch_.gates, attended.width);
    executor_.MatMul(weights_->attention.output_gate, Now(scratch_.normed), gate);
    executor_.Activate(Activation::kSigmoid, gate, attended);
    return gate;
  }
  if (!spec_.gated_queries) return attended;
  const Rows gate = Now(scratch_.gates);
  const Rows pairs = HeadsOf(Now(scratch_.query_wide), heads);
  executor_.Copy(pairs.Columns(spec_.key_width, spec_.key_width), HeadsOf(gate, heads));
  executor_.Activate(Activation::kSigmoid, gate, attended);
  return gate;
}

Status Forward::Attend() {
  if (spec_.layer[layer_].recurrent) return RunRecurrence();
  if (spec_.compressed.groups > 0) return AttendCompressed();
  if (spec_.is_latent()) {
    SHARD_CHECK(ProjectLatent());
  } else {
    SHARD_CHECK(ProjectHeads());
  }
  SHARD_CHECK(MixHeads());
  if (spec_.softplus_gates) SHARD_CHECK(ScaleBySoftplus(AttendedNow()));
  executor_.Project(weights_->attention.output, GateHeads(), Now(scratch_.branch));
  if (spec_.value_scale != 1) executor_.Scale(Now(scratch_.branch), spec_.value_scale);
  return Mark("attention output", Now(scratch_.branch));
}

}  // namespace moepack::runtime
