// A Model with what the forward pass needs from it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime-shim/model/layer_weights.h"
#include "runtime-shim/session/scratch.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

// What the routers may pick, by layer: where the experts are, their ids, and the router that picks,
// if a refit gave the group its own (null: the trunk's).
struct EligibleTables {
  std::vector<LayerExpertTable> tables;
  LayerExperts ids;
  std::vector<const RouterWeights*> routers = {};
  const RouterWeights* RouterOf(uint32_t layer) const {
    return layer < routers.size() ? routers[layer] : nullptr;
  }
};

class DeviceModel final : public Model {
 public:
  DeviceModel(std::shared_ptr<const Weights> weights, ModelSpec spec, Executor& executor)
      : weights_(std::move(weights)), spec_(std::move(spec)), executor_(executor) {}

  // Uploads trunk and sets. It is called once.
  Status Upload();

  const ModelSpec& spec() const override { return spec_; }
  const Weights& weights() const override { return *weights_; }
  Executor& executor() const override { return executor_; }
  uint64_t device_bytes() const override;
  uint32_t vocabulary() const override { return trunk_.embedding.rows; }
  uint64_t bytes_per_token() const override { return BytesOfRow(*this).scratch; }
  uint64_t bytes_per_position() const override { return BytesOfRow(*this).cache; }
  uint64_t bytes_per_session() const override { return BytesOfRow(*this).session; }

  const DeviceTrunk& trunk() const { return trunk_; }
  uint64_t widest_expert() const;
  // What all sessions work in, one at a time; opening a session may enlarge it.
  Scratch& scratch() const { return scratch_; }
  // The experts of TablesOf without a group.
  Result<std::vector<LayerExpertTable>> TableOf(const LayerExperts& eligible) const {
    SHARD_TRY(EligibleTables eligible_tables, TablesOf(eligible, std::nullopt));
    return std::move(eligible_tables.tables);
  }
  // Returns where the eligible experts of each layer are, for `group` if it is given (see
  // SessionOptions). kInvalidArgument for a layer that has fewer than its top-k, for an expert that
  // is not loaded, and without a group if groups differ.
  Result<EligibleTables> TablesOf(const LayerExperts& eligible,
                                  std::optional<uint32_t> group) const;

 private:
  Status CheckTypes() const;
  Status CheckRoom(uint64_t bytes, const std::string& what) const;
  LayerExpertTable LoadedExperts(const std::vector<const DeviceSet*>& sets, uint32_t layer) const;
  Result<std::vector<const DeviceSet*>> SetsFor(std::optional<uint32_t> group) const;

  std::shared_ptr<const Weights> weights_;
  ModelSpec spec_;
  Executor& executor_;
  DeviceTrunk trunk_;
  std::vector<DeviceSet> sets_;
  mutable Scratch scratch_;
};

}  // namespace moepack::runtime
