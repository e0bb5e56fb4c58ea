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
  bool FeedsInParallel() const;
  bool RoutesEarly() const { return spec_.routes_early && weights_->moe(); }
  // Norms the output of the MLP or the experts, if the family does, and adds it to the stream.
  void AddBranch(float scale);

  // forward_residuals.cc
  // ModelSpec::residual_block: what a layer kept, by its number among those that do.
  Rows Kept(uint32_t number) const;
  void KeepStream();
  // Puts the mix of `kept` kept streams and the current one into `out`.
  Status MixStreams(const Matrix& score, uint32_t kept, const Rows& out);
  // Puts the norm of the stream, or of its mix with `kept` others, into scratch.normed.
  Status NormStream(const Linear& norm, const Matrix& score, uint32_t kept);
  Status NormBeforeMlp();

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
  // forward_indexer.cc
  // Lets the layer's indexer pick positions for each row; `low` are the inputs of its queries.
  Status PickPositions(const Rows& low);
  // Attention of the segment's rows, each to the positions that were picked for it.
  void AttendPicked(const Segment& segment, const Rows& queries, const Rows& mixed);
  // kUnsupported if the layer uses what another one picked, which this pass has not run.
  Status CheckPicks() const;

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
  Activation MlpActivation() const {
    const float limit = spec_.layer[layer_].mlp_limit;
    return limit > 0 ? Activation(Activation::kLimitedSilu, limit) : spec_.activation;
  }
  // The rows of the pass, and of a segment.
  Rows Now(const Rows& rows) const { return rows.Slice(0, count_); }
  // The same if only `width` values of a row are used, which are then contiguous.
  Rows Dense(const Rows& rows, uint32_t width) const {
    return {rows.buffer, rows.offset, count_, width, width};
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
};

}  // namespace moepack::runtime
