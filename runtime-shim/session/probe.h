// How well a group would serve a prompt, from the logits of whole routers.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/plan/plan.h"
#include "runtime-shim/model/router.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

// The share of a router's wish that each node fulfils: the gate values of the top_k experts that it
// picks among eligible[node], over those of the top_k that it would pick among all. Gate values are
// those of the whole router before the choice (GateValues), for both. 0 to 1; a selection bias can
// make a node's experts weigh more than the router's own choice, which counts as 1. 0 when the
// chosen routing groups have too few eligible experts.
// kInvalidArgument when sizes or ids do not fit, or fewer than top_k experts are eligible.
Result<std::vector<double>> GateShares(std::span<const float> logits,
                                       std::span<const float> selection_bias, const Routing& spec,
                                       const std::vector<ExpertIds>& eligible);

// Adds up GateShares while a prompt runs. Position 0 is left out: models park
// attention on it and its experts say nothing of the text.
class GroupScores : public RoutingObserver {
 public:
  // `eligible`: one entry per group, by layer. Only the first `moe_layers` MoE layers count; 0:
  // all.
  GroupScores(const Model& model, const std::vector<LayerExperts>& eligible, uint32_t moe_layers);
  // How many layers of the model must run to have seen those that count.
  uint32_t layers() const;
  void Observe(const RoutedBatch& batch) override;
  // One score per group: the mean over positions and layers. kInvalidArgument when no position
  // counted (a prompt of one token), or what GateShares says.
  Result<std::vector<double>> Scores() const;

 private:
  struct Layer {
    Routing router;
    std::vector<ExpertIds> eligible;  // per group
  };
  Status Add(const RoutedBatch& batch, const Layer& layer);

  std::map<uint32_t, Layer> layers_;  // those that count
  std::vector<double> sums_;
  uint64_t samples_ = 0;  // (position, layer) pairs
  Status status_ = Ok();
};

}  // namespace moepack::runtime
