// What the routers of a run decided, kept to find where two runs part.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime-shim/session/session.h"

namespace moepack::runtime {

class RoutingTrace : public RoutingObserver {
 public:
  struct Step {
    std::vector<float> logits;
    Selection chosen;
    std::vector<float> norms, peaks;  // of what the chosen experts put out
  };
  // By position, then layer: the order in which an error spreads.
  using Steps = std::map<std::pair<uint32_t, uint32_t>, Step>;

  bool wants_outputs() const override { return true; }
  void Observe(const RoutedBatch& batch) override;
  const Steps& steps() const { return steps_; }
  // Ids that were chosen at least once.
  LayerExperts Used() const;

 private:
  Steps steps_;
};

struct RoutingDifference {
  uint32_t position = 0, layer = 0;
  // "expert 3 puts out other values", "experts 1,4 were chosen, not 1,2", "the router's logits
  // differ: something before this layer's experts"
  std::string what;
};
// The first step in which two runs of the same tokens part by more than `tolerance` (relative to
// the largest value of its kind in that step; 0: the bits).
std::optional<RoutingDifference> FirstDifference(const RoutingTrace& expected,
                                                 const RoutingTrace& actual, double tolerance);

}  // namespace moepack::runtime
