#include "runtime-shim/session/scratch.h"

#include <algorithm>
#include <optional>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {
namespace {

// Collects what will be allocated, so that the total size is known before anything is.
class Allocation {
 public:
  void Add(Rows& rows, uint32_t count, uint64_t width) {
    wanted_.push_back({&rows, count, width});
    const auto values = CheckedMul(count, width);
    const auto bytes = values ? CheckedMul(*values, sizeof(float)) : std::nullopt;
    const auto sum = bytes ? CheckedAdd(bytes_, *bytes) : std::nullopt;
    bytes_ = sum.value_or(UINT64_MAX);
    fits_ = fits_ && sum && width <= INT32_MAX;
  }
  // False if a row has more than INT32_MAX values, or the bytes exceed 64 bits.
  bool fits() const { return fits_; }
  uint64_t bytes() const { return bytes_; }

  Status Make(Executor& executor, std::vector<BufferPtr>& buffers) const {
    for (const Wanted& wanted : wanted_) {
      if (wanted.width == 0) continue;
      const auto width = static_cast<uint32_t>(wanted.width);
      SHARD_TRY(BufferPtr buffer,
                executor.Allocate(uint64_t{wanted.count} * width * sizeof(float)));
      *wanted.rows = {buffer.get(), 0, wanted.count, width, width};
      buffers.push_back(std::move(buffer));
    }
    return Ok();
  }

 private:
  struct Wanted {
    Rows* rows;
    uint32_t count;
    uint64_t width;
  };
  std::vector<Wanted> wanted_;
  uint64_t bytes_ = 0;
  bool fits_ = true;
};

uint64_t WidestMlp(const DeviceModel& model) {
  uint64_t widest = 0;
  for (const LayerWeights& layer : model.trunk().layers) {
    widest = std::max<uint64_t>(widest, layer.dense.inner());
    widest = std::max<uint64_t>(widest, layer.shared.inner());
    for (const MlpWeights& chunk : layer.chunks) widest = std::max<uint64_t>(widest, chunk.inner());
  }
  return std::max(widest, model.widest_expert());
}

uint32_t MostExperts(const DeviceModel& model) {
  uint32_t most = 0;
  for (const LayerWeights& layer : model.trunk().layers)
    most = std::max(most, layer.router.weight.rows);
  return most;
}

// The most experts that a token uses in a layer.
uint32_t MostChosen(const ModelSpec& spec) {
  uint32_t most = 0;
  for (const LayerSpec& layer : spec.layer) most = std::max(most, layer.router.top_k);
  return most;
}

// The largest product of heads and their width in any layer.
uint64_t Widest(const ModelSpec& spec, uint32_t LayerSpec::*heads, uint32_t LayerSpec::*width) {
  uint64_t widest = 0;
  for (const LayerSpec& layer : spec.layer)
    widest = std::max(widest, uint64_t{layer.*heads} * (layer.*width));
  return widest;
}

// What goes into a recurrence, and what comes out of it; with KDA one projection at a time. The
// results of a delta net's smaller projections use the second rows too; beta and alpha may be in
// one row (DeltaWeights).
uint64_t RecurrentIn(const ModelSpec& spec) {
  uint32_t compressed = 0;
  for (uint32_t number = 0; number < spec.layers; ++number)
    compressed = std::max({compressed, spec.CompressorOf(number).columns(),
                           spec.IndexCompressorOf(number).columns()});
  return std::max({spec.delta.channels(), spec.mamba.projected(), spec.kda.values(),
                   spec.convolution.projected(), compressed});
}
uint64_t RecurrentOut(const ModelSpec& spec) {
  return std::max({spec.delta.values(), 2 * spec.delta.value_heads, spec.mamba.inner(),
                   spec.kda.values(), spec.convolution.width});
}

// The rows of a cache that a token sees at most, with compressed attention: its window, and the
// compressed keys of the layer that has most of them.
uint64_t MostSeen(const ModelSpec& spec) {
  uint64_t most = 0;
  for (const LayerSpec& layer : spec.layer) {
    if (layer.ratio == 0) continue;
    const uint32_t blocks = spec.context / layer.ratio;
    most = std::max(most, uint64_t{std::min(layer.window, spec.context)} +
                              (layer.own_indexer ? std::min(blocks, spec.indexer.top_k) : blocks));
  }
  return most;
}

void AddCompressed(const DeviceModel& model, uint32_t batch, Scratch& scratch, Allocation& all) {
  const ModelSpec& spec = model.spec();
  uint64_t low = 0;
  for (const LayerWeights& layer : model.trunk().layers)
    low = std::max<uint64_t>(low, layer.compressed.query_down.rows);
  all.Add(scratch.query_low, batch, low);
  all.Add(scratch.queries, batch, Widest(spec, &LayerSpec::heads, &LayerSpec::key_width));
  all.Add(scratch.attended, batch, Widest(spec, &LayerSpec::heads, &LayerSpec::value_width));
  all.Add(scratch.output_low, batch, uint64_t{spec.compressed.groups} * spec.compressed.rank);
  all.Add(scratch.index_queries, batch, uint64_t{spec.indexer.heads} * spec.indexer.width);
  all.Add(scratch.index_weights, batch, spec.indexer.heads);
  all.Add(scratch.back_turns, batch, spec.rope.dims);
  all.Add(scratch.local_back_turns, batch, spec.local_rope.dims);
}

void AddAttention(const DeviceModel& model, uint32_t batch, Scratch& scratch, Allocation& all) {
  const ModelSpec& spec = model.spec();
  const uint64_t heads = spec.heads;
  const std::vector<LayerWeights>& layers = model.trunk().layers;
  const bool gates = std::any_of(layers.begin(), layers.end(), [](const LayerWeights& layer) {
    return static_cast<bool>(layer.attention.head_gate);
  });
  const uint64_t values = Widest(spec, &LayerSpec::heads, &LayerSpec::value_width);
  if (gates || !spec.is_latent())
    all.Add(scratch.head_gates, batch, spec.softplus_gates ? values : heads);
  all.Add(scratch.recurrent_in, batch, RecurrentIn(spec));
  all.Add(scratch.recurrent_out, batch, RecurrentOut(spec));
  if (spec.compressed.groups > 0) return AddCompressed(model, batch, scratch, all);
  if (!spec.is_latent()) {
    all.Add(scratch.queries, batch, Widest(spec, &LayerSpec::heads, &LayerSpec::key_width));
    all.Add(scratch.attended, batch, values);
    if (spec.gated_queries) {
      all.Add(scratch.query_wide, batch, 2 * heads * spec.key_width);
      all.Add(scratch.gates, batch, heads * spec.key_width);
    }
    if (spec.gated_attention) all.Add(scratch.gates, batch, values);
    all.Add(scratch.index_queries, batch, uint64_t{spec.blocks.heads} * spec.blocks.width);
    all.Add(scratch.index_key, batch, spec.blocks.width);
    return;
  }
  uint64_t low = 0;
  for (const LayerWeights& layer : model.trunk().layers)
    low = std::max<uint64_t>(low, layer.attention.query_down.rows);
  all.Add(scratch.query_low, batch, low);
  all.Add(scratch.query_wide, batch, heads * spec.key_width);
  all.Add(scratch.queries, batch, heads * (spec.latent.rank + spec.rope.dims));
  all.Add(scratch.latent_out, batch, heads * spec.latent.rank);
  if (spec.gated_attention) all.Add(scratch.gates, batch, heads * spec.latent.value_width);
  const IndexerShape& indexer = spec.indexer;
  all.Add(scratch.index_queries, batch, uint64_t{indexer.heads} * indexer.width);
  all.Add(scratch.index_key, batch, indexer.width);
  all.Add(scratch.index_weights, batch, indexer.heads);
  all.Add(scratch.attended, batch, heads * spec.latent.value_width);
}

// Keys and values of this width; those of latent attention are in the keys.
struct CacheWidths {
  uint64_t key = 0, value = 0;
};
void AddCache(const ModelSpec& spec, const CacheWidths& widths, uint32_t rows, Rows& keys,
              Rows& values, Allocation& all) {
  if (spec.is_latent()) return all.Add(keys, rows, spec.latent.rank + spec.rope.dims);
  all.Add(keys, rows, widths.key);
  if (!spec.values_in_keys()) all.Add(values, rows, widths.value);
}

// The rows of Scratch::picked, which do not depend on the batch, and their width.
std::pair<uint64_t, uint64_t> PickedRows(const ModelSpec& spec) {
  if (spec.compressed.groups > 0) return {MostSeen(spec), spec.key_width};
  if (spec.indexer.heads == 0) return {0, 0};
  return {spec.indexer.top_k, spec.latent.rank + spec.rope.dims};
}

// What blocks need that read of several streams, and n-grams.
void AddStreams(const ModelSpec& spec, uint32_t batch, Scratch& scratch, Allocation& all) {
  if (spec.streams.count > 0) {
    all.Add(scratch.next_streams, batch, spec.hidden_width());
    all.Add(scratch.stream_parts, batch, spec.hidden_width());
    all.Add(scratch.stream_mixes, batch, spec.streams.projected());
    all.Add(scratch.low_gates, batch, spec.streams.low_rank);
    all.Add(scratch.low_values, batch, spec.streams.low_rank);
  }
  all.Add(scratch.ngrams, batch, uint64_t{spec.ngrams.picks()} * spec.ngrams.width);
  if (const uint32_t kept = spec.KeptBefore(spec.layers); kept > 0)
    all.Add(scratch.scores, batch, kept + 1);
}

void AddScratch(const DeviceModel& model, const RowCounts& counts, Scratch& scratch,
                Allocation& all) {
  const uint32_t batch = counts.batch;
  const ModelSpec& spec = model.spec();
  scratch.batch = batch;
  all.Add(scratch.stream, batch, spec.stream_width());
  for (Rows* rows :
       {&scratch.normed, &scratch.branch, &scratch.expert_in, &scratch.expert_out, &scratch.zeros})
    all.Add(*rows, batch, spec.width);
  AddStreams(spec, batch, scratch, all);
  all.Add(scratch.space_in, batch, spec.expert_space);
  all.Add(scratch.space_out, batch, spec.expert_space);
  AddAttention(model, batch, scratch, all);
  const CacheWidths widest = {Widest(spec, &LayerSpec::key_heads, &LayerSpec::key_width),
                              Widest(spec, &LayerSpec::key_heads, &LayerSpec::value_width)};
  AddCache(spec, widest, batch, scratch.keys, scratch.values, all);
  const bool beside = spec.parallel_experts || spec.routes_early || spec.chunks.experts > 0;
  all.Add(scratch.beside, batch, beside ? spec.width : 0);
  const auto [picked, picked_width] = PickedRows(spec);
  all.Add(scratch.picked, static_cast<uint32_t>(picked), picked_width);
  all.Add(scratch.gate, batch, WidestMlp(model));
  all.Add(scratch.up, batch, WidestMlp(model));
  all.Add(scratch.router, batch, MostExperts(model));
  all.Add(scratch.shared_gate, batch, 1);
  all.Add(scratch.sizes, batch * MostChosen(spec), 2);
  all.Add(scratch.turns, batch, spec.rope.dims);
  all.Add(scratch.local_turns, batch, spec.local_rope.dims);
  const uint64_t logits = counts.logit_bytes / (sizeof(float) * std::max(1u, model.vocabulary()));
  all.Add(scratch.logits, static_cast<uint32_t>(std::clamp<uint64_t>(logits, 1, batch)),
          model.vocabulary());
}

void AddCaches(const ModelSpec& spec, const RowCounts& counts, Caches& caches, Allocation& all) {
  caches.layers.resize(spec.layers);
  for (uint32_t number = 0; number < spec.layers; ++number) {
    if (counts.layer.value_or(number) != number) continue;
    const LayerSpec& layer = spec.layer[number];
    LayerCache& cache = caches.layers[number];
    ClearState(spec, number, cache);
    if (!layer.recurrent && layer.mixes) {
      const CacheWidths widths = {uint64_t{layer.key_heads} * layer.key_width,
                                  uint64_t{layer.key_heads} * layer.value_width};
      AddCache(spec, widths, counts.context, cache.keys, cache.values, all);
    }
    if (layer.ratio > 0)
      all.Add(cache.compressed_keys, std::max(1u, counts.context / layer.ratio), layer.key_width);
  }
}

// What layers have on the host: the states of a session's recurrences and compressors.
uint64_t StateBytes(const ModelSpec& spec) {
  uint64_t values = 0;
  for (uint32_t number = 0; number < spec.layers; ++number) {
    if (spec.layer[number].recurrent) values += spec.recurrence().values();
    if (spec.layer[number].embeds_ngrams) values += spec.ngrams.state().values();
    for (const CompressorShape& shape : {spec.CompressorOf(number), spec.IndexCompressorOf(number)})
      values += 2 * uint64_t{shape.rows()} * shape.columns();
  }
  return values * sizeof(float);
}

// Of how many positions the cache has whole rows, in each layer.
uint32_t WholePositions(const ModelSpec& spec) {
  uint32_t positions = 1;
  for (const LayerSpec& layer : spec.layer) positions = std::max(positions, layer.ratio);
  return positions;
}

// What the layers with an indexer have on the host for each position.
uint64_t IndexKeyBytes(const ModelSpec& spec) {
  uint64_t bytes = 0;
  for (const LayerSpec& layer : spec.layer) {
    if (layer.own_indexer) bytes += spec.indexer.width * sizeof(float) / std::max(1u, layer.ratio);
    if (layer.picks_blocks) bytes += spec.blocks.width * sizeof(float);
  }
  return bytes;
}

uint64_t PickedBytes(const ModelSpec& spec) {
  const auto [rows, width] = PickedRows(spec);
  return rows * width * sizeof(float);
}

// Of the embedding of n-grams, on the host: keys, queries and what is added, and the value.
uint64_t NgramValues(const ModelSpec& spec) {
  return spec.ngrams.size == 0 ? 0 : 3 * uint64_t{spec.ngrams.channels} + spec.width;
}

}  // namespace

std::optional<uint32_t> TokensInState(const LayerSpec& layer, const LayerCache& cache) {
  if (layer.recurrent) return cache.state.length;
  if (layer.ratio > 0) return cache.compressor.length;
  return std::nullopt;
}

void ClearState(const ModelSpec& spec, uint32_t number, LayerCache& cache) {
  if (spec.layer[number].recurrent) cache.state.Clear(spec.recurrence());
  if (spec.layer[number].embeds_ngrams) cache.ngrams.Clear(spec.ngrams.state());
  cache.compressor.Clear(spec.CompressorOf(number));
  cache.index_compressor.Clear(spec.IndexCompressorOf(number));
}

RowBytes BytesOfRow(const DeviceModel& model) {
  Scratch scratch;
  Caches caches;
  Allocation row, position;
  AddScratch(model, {}, scratch, row);
  const uint32_t positions = WholePositions(model.spec());
  AddCaches(model.spec(), {.context = positions}, caches, position);
  // Without the one row of logits, as those of a batch are read in slices. With the values between
  // the steps of all experts of a token, which the CPU keeps (cpu/cpu.cc).
  const uint64_t logits = sizeof(float) * uint64_t{model.vocabulary()};
  const uint64_t experts = uint64_t{MostChosen(model.spec())} *
                           (model.spec().width + model.widest_expert()) * sizeof(float);
  // On the host: what goes into a recurrence, which is read back whole, a delta net's gates and
  // strengths, and what comes out (forward_delta.cc, forward_mamba.cc); with KDA the results of six
  // projections (forward_kda.cc), with compressors those of four and the indexer's queries
  // (forward_compressed.cc).
  const ModelSpec& spec = model.spec();
  const uint64_t results = spec.kda.heads > 0 ? 6 : 3;
  uint64_t read = RecurrentIn(spec) + results * RecurrentOut(spec) + NgramValues(spec);
  if (spec.compressed.groups > 0)
    read += 3 * RecurrentIn(spec) + uint64_t{spec.indexer.heads} * (spec.indexer.width + 1);
  return {row.bytes() - logits - PickedBytes(spec) + experts + read * sizeof(float),
          position.bytes() / positions + IndexKeyBytes(spec), StateBytes(spec) + PickedBytes(spec)};
}

Result<Caches> AllocateRows(const DeviceModel& model, const RowCounts& counts, Scratch& scratch) {
  const ModelSpec& spec = model.spec();
  const bool larger = counts.batch > scratch.batch;
  Scratch made;
  Caches caches;
  Allocation all, rows;
  if (larger) AddScratch(model, counts, made, rows);
  AddCaches(spec, counts, caches, all);
  const uint64_t bytes = CheckedAdd(all.bytes(), rows.bytes()).value_or(UINT64_MAX);
  Executor& executor = model.executor();
  if (!all.fits() || !rows.fits() || bytes > executor.available()) {
    return Error{Code::kUnavailable,
                 Cat(model.weights().path, ": cache and activations: expected ", bytes,
                     " bytes free on ", executor.description(), ", found ", executor.available()),
                 "a smaller --context needs less"};
  }
  SHARD_CHECK(rows.Make(executor, made.buffers));
  made.hidden = made.stream.Columns(0, spec.hidden_width());
  SHARD_CHECK(all.Make(executor, caches.buffers));
  // Last, so that the sessions that are open keep their rows if something does not fit.
  if (larger) scratch = std::move(made);
  const uint32_t columns = spec.is_latent() ? spec.latent.rank : spec.key_width;
  if (spec.values_in_keys()) {
    for (LayerCache& cache : caches.layers) cache.values = cache.keys.Columns(0, columns);
  }
  return caches;
}

}  // namespace moepack::runtime
