// Scores how well a group would serve a prompt, from the logits of whole routers.
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

// Returns the share of a router's choice that each node can serve: the sum of the gate values of
// the top_k experts picked among eligible[node], divided by that of the top_k picked among all.
// Both sums use the gate values of the whole router before the choice (GateValues). The share is 0
// to 1; with a selection bias a node's experts may weigh more than the router's own choice, which
// counts as 1. It is 0 if the chosen routing groups have too few eligible experts. kInvalidArgument
// if sizes or ids do not fit, or fewer than top_k experts are eligible.
Result<std::vector<double>> GateShares(std::span<const float> logits,
                                       std::span<const float> selection_bias, const Routing& spec,
                                       const std::vector<ExpertIds>& eligible);

// Adds up GateShares while a prompt runs. Position 0 is excluded: it is an attention sink
// (StreamingLLM, arXiv 2309.17453), and its experts say nothing about the text.
class GroupScores : public RoutingObserver {
 public:
  // `eligible` has one entry per group, by layer. Only the first `moe_layers` MoE layers in which
  // routers choose count; 0: all.
  GroupScores(const Model& model, const std::vector<LayerExperts>& eligible, uint32_t moe_layers);
  // How many layers must run until all layers that count have been seen.
  uint32_t layers() const;
  void Observe(const RoutedBatch& batch) override;
  // Returns one score per group, the mean over positions and layers. kInvalidArgument if no
  // position counted (a prompt of one token); otherwise the errors of GateShares.
  Result<std::vector<double>> Scores() const;

 private:
  struct Layer {
    Routing router;
    std::vector<ExpertIds> eligible;  // per group
  };
  Status Add(const RoutedBatch& batch, const Layer& layer);

  std::map<uint32_t, Layer> layers_;  // the layers that count
  std::vector<double> sums_;
  uint64_t samples_ = 0;  // (position, layer) pairs
  Status status_ = Ok();
};

}  // namespace moepack::runtime
