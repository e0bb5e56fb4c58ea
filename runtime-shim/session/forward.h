// Runs a batch of tokens through a model. All families and executors use this pass, whose order of
// operations is that of llama.cpp's graphs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime-shim/session/device_model.h"
#include "runtime-shim/session/scratch.h"

namespace moepack::runtime {

// What the routers may pick, by layer: the places of the experts, and their ids.
struct EligibleTables {
  std::vector<LayerExpertTable> tables;
  LayerExperts ids;
};

// The tokens of a pass. The first is at position `past`.
struct Batch {
  std::span<const uint32_t> tokens;
  uint32_t past = 0;
  bool all_logits = false;  // of every token, else only of the last
  uint32_t layers = 0;      // how many layers run (the observer may not need more); 0: all
  bool quiet = false;       // the observer sees nothing
};

class Forward {
 public:
  // Borrows all arguments; `observer` may be null.
  Forward(const DeviceModel& model, Scratch& scratch, const EligibleTables& eligible,
          RoutingObserver* observer);

  // Sets the factors of rotary angles, which depend on the context that a session has room for.
  void SetContext(uint32_t context);

  // Puts keys and values into the caches, and logits into the first rows of scratch.logits unless
  // only some layers ran. With `trace`, the result of every operation is read back, and the first
  // that is not finite is kCorrupt, with layer and operation.
  Status Run(const Batch& batch, bool trace);

 private:
  void WriteTurns(const RopeSpec& rope, std::span<const double> pairs, const Rows& to);
  Status RunLayer(uint32_t layer);

  // forward_attention.cc
  Status Attend();
  void ProjectQueries(const Rows& normed, const Rows& queries);
  Status ProjectHeads();
  Status ProjectLatent();
  Status NormHeads(const Rows& queries, const Rows& keys);
  void ScaleByPosition(const Rows& queries);
  AttentionShape ShapeOfAttention() const;
  Status MixHeads();
  Rows GateHeads();
  Rows QueriesNow() const;
  Rows AttendedNow() const;

  // forward_delta.cc
  Status RunDelta();
  Status ProjectDelta();

  // forward_experts.cc
  Status MixExperts();
  Result<std::vector<Selection>> Route();
  Status RunExperts(std::span<const Selection> chosen);
  void Observe(std::span<const Selection> chosen);
  void AddShared();

  void Norm(const Linear& norm, const Rows& x, const Rows& y);
  // Returns the first batch.tokens.size() rows.
  Rows Now(const Rows& rows) const { return rows.Slice(0, count_); }
  // The same where only `width` values of a row are used, which then follow each other.
  Rows Dense(const Rows& rows, uint32_t width) const {
    return {rows.buffer, rows.offset, count_, width, width};
  }
  Status Mark(const char* operation, const Rows& rows);
  // kCorrupt, with the operation and the position of the row, unless the value is finite.
  Status CheckFinite(const char* operation, float value, size_t row) const;

  const DeviceModel& model_;
  const ModelSpec& spec_;
  Executor& executor_;
  Scratch& scratch_;
  const EligibleTables& eligible_;
  RoutingObserver* const all_observer_;
  RoutingObserver* observer_;  // of the current batch
  std::vector<double> turns_, local_turns_;

  // State of the current batch and layer.
  uint32_t count_ = 0, past_ = 0, layer_ = 0;
  bool trace_ = false;
  const LayerWeights* weights_ = nullptr;
  std::vector<float> router_logits_, norms_, peaks_;
  // Of a delta net: what its projections gave, and what it makes of it.
  std::vector<float> delta_mixed_, delta_gate_, delta_strengths_, delta_rates_, delta_out_;
};

}  // namespace moepack::runtime
