// The layer that embeds n-grams: rows of a table that hashes of the last tokens pick. The table and
// the projections are on the executor; their results are read back, and the host processes one
// token after another (ngram_embedding.h), so that a batch gives the bits of single tokens.
#include <algorithm>

#include "runtime-shim/model/ngram_embedding.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

std::vector<uint32_t> Forward::PickNgrams() const {
  std::vector<uint32_t> picks;
  for (const Segment& segment : segments_) {
    // As many tokens before the segment as the first one's n-grams have.
    const uint32_t before = std::min(segment.past, spec_.ngrams.size - 1);
    const auto past = segment.before.subspan(segment.past - before, before);
    std::vector<uint32_t> tokens(past.begin(), past.end());
    for (const uint32_t token : segment.tokens) {
      tokens.push_back(token);
      const std::vector<uint32_t> own = NgramRows(spec_.ngrams, tokens);
      picks.insert(picks.end(), own.begin(), own.end());
    }
  }
  return picks;
}

Status Forward::AddNgrams() {
  const NgramShape& shape = spec_.ngrams;
  const NgramWeights& weights = weights_->ngrams;
  const Rows embedded = Now(scratch_.ngrams), hidden = Now(scratch_.hidden);
  executor_.Embed(model_.trunk().ngram_table, PickNgrams(), HeadsOf(embedded, shape.picks()));
  const Rows keys = Now(scratch_.stream_parts), queries = Now(scratch_.next_streams);
  const Rows value = Now(scratch_.branch);
  executor_.MatMul(weights.key, embedded, keys);
  executor_.MatMul(weights.value, embedded, value);
  NormStreams(keys, weights.key_norms, keys);
  NormStreams(hidden, weights.query_norms, queries);
  std::vector<float> key_values(keys.values()), query_values(queries.values()),
      own_values(value.values()), added(hidden.values());
  SHARD_CHECK(executor_.Read(keys, key_values));
  SHARD_CHECK(executor_.Read(queries, query_values));
  SHARD_CHECK(executor_.Read(value, own_values));
  const auto row_of = [](std::vector<float>& all, size_t row, size_t width) {
    return std::span(all).subspan(row * width, width);
  };
  const size_t channels = shape.channels;
  for (const Segment& segment : segments_) {
    RecurrentState& state = (*segment.caches)[layer_].ngrams;
    const size_t end = segment.first_row + segment.count();
    for (size_t row = segment.first_row; row < end; ++row) {
      StepNgrams(shape, weights.constants,
                 {row_of(key_values, row, channels), row_of(query_values, row, channels),
                  row_of(own_values, row, spec_.width)},
                 state, row_of(added, row, channels));
    }
  }
  executor_.Write(added, queries);
  executor_.Add(hidden, queries, 1);
  return Mark("embedding of n-grams", hidden);
}

}  // namespace moepack::runtime
