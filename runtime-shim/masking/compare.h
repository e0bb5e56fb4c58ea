// Compares two sessions that run the same tokens.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

struct LogitsDifference {
  bool same_bits = true;
  double largest = 0;   // |expected - actual|
  double relative = 0;  // `largest` divided by the largest |expected|
};
// REQUIRES: equal sizes, no NaN.
LogitsDifference CompareLogits(std::span<const float> expected, std::span<const float> actual);

// Runs two sessions side by side. Borrows them. REQUIRES: both have room for equally many
// positions.
class SideBySide {
 public:
  // `tolerance` is the largest LogitsDifference::relative that passes; with 0 the bits must be the
  // same.
  SideBySide(Session& expected, Session& actual, double tolerance)
      : expected_(expected), actual_(actual), tolerance_(tolerance) {}

  // Runs tokens on both and compares the logits of every position. kMismatch if the vocabularies
  // differ; otherwise the errors of Session::Feed.
  Status Feed(std::span<const uint32_t> tokens);

  // The logits of the first session after the last token.
  std::span<const float> logits() const { return last_; }

  struct Divergence {
    uint32_t position = 0;
    uint32_t expected = 0, actual = 0;  // greedy tokens
  };
  struct Findings {
    uint32_t positions = 0;  // compared
    LogitsDifference worst;  // by `relative`; same_bits: of all positions
    uint32_t worst_position = 0;
    std::optional<uint32_t> failure;   // the first position beyond the tolerance
    std::optional<Divergence> greedy;  // the first position where the two would diverge
  };
  const Findings& findings() const { return findings_; }

 private:
  void Compare(uint32_t position, std::span<const float> expected, std::span<const float> actual);

  Session& expected_;
  Session& actual_;
  double tolerance_;
  std::vector<float> last_;
  Findings findings_;
};

// Records what the routers of a run decided, to find where two runs diverge.

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
  // "expert 3 outputs other values", "experts 1,4 were chosen, not 1,2", "the router's logits
  // differ: something before this layer's experts"
  std::string what;
};
// Returns the first step in which two runs of the same tokens differ by more than `tolerance`,
// relative to the largest value of its kind in that step. With 0 the bits must be equal.
std::optional<RoutingDifference> FirstDifference(const RoutingTrace& expected,
                                                 const RoutingTrace& actual, double tolerance);

}  // namespace moepack::runtime
