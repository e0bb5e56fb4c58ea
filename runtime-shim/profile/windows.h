// How long texts are run: in windows of the context, one after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moepack::runtime {

struct Window {
  std::vector<uint32_t> tokens;
  // Positions whose tokens are scored, each from the logits of the position before:
  // [first_scored, tokens.size()).
  uint32_t first_scored = 1;
};

// Windows do not overlap. A session that begins with `bos` gets it in front of the tokens of each
// window. A last window of one token is left out, unless it is the only one. `half`: only positions
// past half the context are scored, and `bos` takes the place of the first token of a window, as in
// llama.cpp's perplexity (which also leaves out a last window that is not full).
// REQUIRES: context >= 2.
std::vector<Window> SplitWindows(std::span<const uint32_t> tokens, uint32_t context,
                                 std::optional<uint32_t> bos, bool half);

// Window::first_scored of every window.
constexpr uint32_t FirstScored(uint32_t context, bool half) { return half ? context / 2 + 1 : 1; }

}  // namespace moepack::runtime
