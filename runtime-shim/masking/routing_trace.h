// Records what the routers of a run decided, to find where two runs diverge.
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
    std::vector<float> norms, peaks;  // of the outputs of the chosen experts
  };
  // Sorted by position, then layer, which is the order in which an error spreads.
  using Steps = std::map<std::pair<uint32_t, uint32_t>, Step>;

  bool wants_outputs() const override { return true; }
  void Observe(const RoutedBatch& batch) override;
  const Steps& steps() const { return steps_; }
  // Returns the ids that were chosen at least once.
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
// Returns the first step in which two runs of the same tokens differ by more than `tolerance`,
// relative to the largest value of its kind in that step. With 0 the bits must be equal.
std::optional<RoutingDifference> FirstDifference(const RoutingTrace& expected,
                                                 const RoutingTrace& actual, double tolerance);

}  // namespace moepack::runtime
