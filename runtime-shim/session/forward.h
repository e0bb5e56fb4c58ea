// Runs tokens of one or more sessions through a model. All families and executors use this pass,
// whose order of operations is that of llama.cpp's graphs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime-shim/session/device_model.h"
#include "runtime-shim/session/scratch.h"
#include "runtime-shim/session/segment.h"

namespace moepack::runtime {

class Forward {
 public:
  // Borrows the model.
  explicit Forward(const DeviceModel& model);

  // Returns the factors of rotary angles, which depend on the context that a session has room for.
  static Turns TurnsOf(const DeviceModel& model, uint32_t context);

  // Runs the first `layers` layers (0: all): puts keys and values into the caches, and leaves the
  // last layer's rows in scratch.hidden. With `trace`, the result of every operation is read back,
  // and the first that is not finite results in kCorrupt, with layer and operation. REQUIRES: the
  // scratch has room for all tokens.
  Status Run(std::vector<Segment>& segments, uint32_t layers, bool trace);
  // Calls `ran` after each layer with the share of the layers that have run. May be empty.
  void WatchLayers(std::function<void(double share)> ran) { ran_ = std::move(ran); }
  // For passes that run one layer at a time over whole windows, whose rows (scratch.stream) the
  // caller keeps between the layers (layer_pass.h). Every segment starts at position 0. Sets which
  // tokens are run, and puts their embeddings into scratch.hidden.
  Status Embed(std::vector<Segment>& segments);
  // The first half of a layer: scratch.hidden first holds the layer's input, and then the stream
  // after attention; scratch.normed is the input of the layer's MLP or experts, unless the router
  // has other inputs.
  Status RunAttention(std::vector<Segment>& segments, uint32_t layer, bool trace);
  // The second half, after the first: adds the outputs of the MLP, or of the experts in the
  // segments' tables, and of the shared experts.
  Status RunMlp();
  // RunMlp of a layer with experts in two halves. The first leaves the weighted sum of the experts'
  // outputs in ExpertSums(); the second takes it from there to the end of the layer.
  Status SumExperts();
  Status AddExperts();
  Rows ExpertSums() const;
  // Instead of the first half: puts the router's inputs into scratch.normed, and after that the
  // experts' inputs into the rows that are returned.
  Status PutRouterInputs();
  Result<Rows> PutExpertInputs();
  // For AddExperts without a first half: scratch.hidden holds the stream after attention.
  Status ResumeAfterAttention(std::vector<Segment>& segments, uint32_t layer, bool trace);
  // Instead of RunMlp: puts the shared experts' output, zero without any, into scratch.branch.
  void RunShared();

  // Puts the logits of these rows of the last pass into the first rows of scratch.logits. REQUIRES:
  // there is room for them.
  Status PutLogits(std::span<const uint32_t> rows, bool trace);

 private:
  // Sets the states of recurrent layers to those after the tokens before the segment.
  Status CatchUp(const Segment& segment, uint32_t layers);
  Status RunSegments(std::span<Segment> segments, uint32_t layers);
  void WriteTurns();
  // Makes the segments' rows those of the pass; returns their tokens.
  std::vector<uint32_t> Place(std::span<Segment> segments);
  Status EmbedTokens(std::span<const uint32_t> tokens);
  Status RunAttentionOf(uint32_t layer);
  Status MixLayer();
  // Puts the norm of the stream, or of what the block reads of several, into scratch.normed. What
  // it reads of gated streams has no norm. `kept` streams of earlier layers are among those that a
  // block with residual attention reads.
  Status NormInput(const Linear& norm, const StreamWeights& streams, uint32_t kept);
  void AddToStream(float scale);
  bool FeedsInParallel() const;
  bool RoutesEarly() const { return spec_.routes_early && weights_->moe(); }
  // Norms the output of the MLP or the experts, if the family does, and adds it to the stream.
  void AddBranch(float scale);

  // forward_streams.cc
  Result<std::vector<float>> ProjectStreams(const StreamWeights& weights, const Rows& streams);
  // Puts what the block reads into scratch.normed, and keeps what WriteStreams needs.
  Status ReadStreams(const StreamWeights& weights);
  // Mixes the streams, and adds to each its share of the block's output.
  void WriteStreams();
  // sum[t] = the streams of row t times their weights
  void SumStreams(const Rows& streams, std::span<const float> weights, const Rows& sum);
  // Puts what the head of the model reads of these rows into `out`.
  Status GatherOutputs(std::span<const uint32_t> rows, const Rows& out);

  // forward_gated_streams.cc
  void NormStreams(const Rows& streams, const std::vector<Matrix>& norms, const Rows& normed);
  // Puts what a block reads into `out`, and keeps what WriteGated needs.
  Status ReadGated(const GatedStreamWeights& weights, const Rows& streams, const Rows& out);
  void WriteGated();

  // forward_ngrams.cc
  Status AddNgrams();
  std::vector<uint32_t> PickNgrams() const;

  // forward_residuals.cc
  // ModelSpec::residual_block: what a layer kept, by its number among those that do.
  Rows Kept(uint32_t number) const;
  // Keeps the stream, and starts a new one with attention's output.
  void StartStream();
  // Puts the mix of `kept` kept streams and the current one into `out`.
  Status MixKept(const Matrix& score, uint32_t kept, const Rows& out);

  // forward_attention.cc
  Status Attend();
  void ProjectQueries(const Rows& normed, const Rows& queries);
  Status ProjectHeads();
  Status ProjectLatent();
  Status NormHeads(const Rows& queries, const Rows& keys);
  void ScaleByPosition(const Rows& queries);
  // The rows that new keys and values are computed in: those of the cache if there is one segment.
  struct CacheRows {
    Rows keys, values;
  };
  CacheRows NewCacheRows() const;
  void ProjectValues(const Rows& normed, const CacheRows& rows);
  void StoreCacheRows(const CacheRows& rows);
  AttentionShape ShapeOfAttention(const Segment& segment) const;
  Status MixHeads();
  Rows GateHeads();
  Status ScaleBySoftplus(const Rows& attended);
  Rows QueriesNow() const;
  Rows AttendedNow() const;

  // forward_blocks.cc
  Result<std::vector<float>> ProjectIndexer();
  Status MixBlocks(const Segment& segment, std::span<const float> index_queries,
                   const Rows& queries, const Rows& mixed);
  // The keys of all complete blocks of the segment's tokens and those before them.
  std::vector<float> PooledKeys(const Segment& segment) const;
  // For each of the segment's tokens from `first` on and each key head, the keys that it sees.
  using SeenKeys = std::vector<std::vector<uint32_t>>;
  Result<SeenKeys> PickKeys(const Segment& segment, std::span<const float> index_queries,
                            uint32_t first) const;
  // forward_indexer.cc
  // Lets the layer's indexer pick positions for each row; `low` are the inputs of its queries.
  Status PickPositions(const Rows& low);
  // Attention of the segment's rows, each to the positions that were picked for it.
  void AttendPicked(const Segment& segment, const Rows& queries, const Rows& mixed);
  // kUnsupported if the layer uses what another one picked, which this pass has not run.
  Status CheckPicks() const;

  // forward_compressed.cc
  Status AttendCompressed();
  Status ProjectCompressed();
  Status CompressKeys();
  Status ProjectIndexQueries();
  Status MixCompressed();
  void AttendBoth(const Segment& segment, uint32_t index);
  Status ProjectGroups();

  // forward_mamba.cc
  Status RunMamba();
  Status RunConvolution();
  Status RunRecurrence();

  // forward_delta.cc
  Status RunDelta();
  Status ProjectDelta();
  void StepDeltas(const Segment& segment);

  // forward_kda.cc
  Status RunKda();
  Status ReadProjection(const Matrix& matrix, const Rows& in, std::vector<float>& out);

  // forward_parallel.cc
  Status AddInParallel();

  // forward_experts.cc
  // Puts the logits of the segments' routers into `logits`.
  void ProjectRouters(const Rows& logits);
  std::span<const float> SelectionBiasOf(const Segment& segment) const;
  // LayerSpec::routes_by_table: what the table names.
  std::span<const uint32_t> ExpertsOfToken(uint32_t token) const;
  Result<std::vector<Selection>> Route();
  bool WantsOutputs() const;
  Status RunExperts(std::span<const Selection> chosen, const Rows& in);
  void Observe(std::span<const Selection> chosen);
  void AddShared();

  // forward_chunks.cc
  // Adds the outputs of the chunk experts of the chosen experts to ExpertSums().
  Status AddChunks(std::span<const Selection> chosen);

  void Norm(const Linear& norm, const Rows& x, const Rows& y);
  // For the layer's dense and shared MLPs.
  Activation MlpActivation() const { return spec_.MlpActivationOf(layer_); }
  // The rows of the pass, and of a segment.
  Rows Now(const Rows& rows) const { return rows.Slice(0, count_); }
  // The same if only `width` values of a row are used, which are then contiguous.
  Rows Dense(const Rows& rows, uint32_t width) const {
    return {rows.buffer, rows.offset, count_, width, width};
  }
  // Views the same values with one head, or stream, per row. REQUIRES: rows are contiguous.
  static Rows HeadsOf(const Rows& rows, uint32_t heads) {
    return {rows.buffer, rows.offset, rows.count * heads, rows.width / heads, rows.width / heads};
  }
  static Rows Own(const Rows& rows, const Segment& segment) {
    return rows.Slice(segment.first_row, segment.count());
  }
  Status Mark(const char* operation, const Rows& rows);
  // kCorrupt, with the operation and the position of the row, unless the value is finite.
  Status CheckFinite(const char* operation, float value, size_t row) const;

  const DeviceModel& model_;
  const ModelSpec& spec_;
  Executor& executor_;
  Scratch& scratch_;

  std::function<void(double share)> ran_;

  // State of the current pass and layer.
  std::span<const Segment> segments_;
  std::vector<uint32_t> positions_;  // of the rows
  uint32_t count_ = 0, layer_ = 0;
  bool trace_ = false;
  const LayerWeights* weights_ = nullptr;
  std::vector<float> router_logits_, norms_, peaks_;
  // The values of scratch_.turns, and for each row the positions that an indexer picked; none if it
  // sees all of them.
  std::vector<float> turns_;
  std::vector<std::vector<uint32_t>> picked_;
  // For a delta net, the results of its projections; for any recurrence, its outputs.
  std::vector<float> delta_mixed_, delta_gate_, delta_strengths_, delta_rates_, recurrent_out_;
  struct KdaResults {
    std::vector<float> queries, keys, values, decay, gate, strength;
  } kda_;
  // Of hyper-connections, by row: what the streams get of the block's output, and of each other.
  std::vector<float> stream_writes_, stream_keeps_;
  std::vector<float> index_queries_, index_gains_;  // of compressed attention
};

}  // namespace moepack::runtime
