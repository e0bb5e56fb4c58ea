// Compares two sessions that run the same tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
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

}  // namespace moepack::runtime
