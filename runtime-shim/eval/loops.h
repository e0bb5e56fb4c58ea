// Determines whether generated text repeats itself.
#pragma once

#include <cstdint>
#include <span>

namespace moepack::runtime {

inline constexpr uint32_t kLongestPeriod = 16;
inline constexpr uint32_t kLoopRepeats = 4;

struct LoopResult {
  uint32_t tokens = 0;  // generated
  // The length of the longest run of tokens that occurs twice in the last half (the two may
  // overlap), as a share of that half.
  double repeated_share = 0;
  // The shortest period, of at most kLongestPeriod tokens, that the text repeats kLoopRepeats times
  // at its end; 0 if there is none.
  uint32_t period = 0;
  bool looping() const { return period > 0; }
};

LoopResult FindLoop(std::span<const uint32_t> generated);

}  // namespace moepack::runtime
