// The sessions of tokens that a model runs, and the windows into which long ones are cut to fit the
// context, which are run one after another.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moepack::runtime {

// Tokens that belong together: a conversation, a document.
struct TokenSession {
  std::string name;    // unique among those that were read
  std::string bucket;  // "code", "chat", ...; "" if not given
  std::vector<uint32_t> tokens = {};
  std::string file = {};  // that it was read from, without directories; "" for ids
};

struct Window {
  std::vector<uint32_t> tokens;
  // The tokens at positions [first_scored, tokens.size()) are scored, each with the logits of the
  // previous position.
  uint32_t first_scored = 1;
};

// Cuts a session into windows that do not overlap. If it begins with `bos`, each window gets `bos`
// in front of its tokens. A last window of one token is dropped unless it is the only one. With
// `half`, only positions past half the context are scored, and `bos` replaces the first token of a
// window, as in llama.cpp's perplexity tool (which also drops a last window that is not full).
// REQUIRES: context >= 2.
std::vector<Window> SplitWindows(std::span<const uint32_t> tokens, uint32_t context,
                                 std::optional<uint32_t> bos, bool half);

// The value of Window::first_scored for every window.
constexpr uint32_t FirstScored(uint32_t context, bool half) { return half ? context / 2 + 1 : 1; }

}  // namespace moepack::runtime
