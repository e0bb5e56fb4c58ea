// The tokens of the current window, by position.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moepack::runtime {

class WindowTokens {
 public:
  // `bos` is the beginning-of-sequence token, if the model has one.
  explicit WindowTokens(std::optional<uint32_t> bos) : bos_(bos) {}

  // Declares that the next token is at position 0.
  void Start() { tokens_.clear(); }
  void Add(std::span<const uint32_t> tokens) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }
  uint32_t size() const { return static_cast<uint32_t>(tokens_.size()); }
  // True for attention sinks, the first position and `bos`, which are routed differently from other
  // tokens. REQUIRES: position < size().
  bool IsSink(uint32_t position) const {
    return position == 0 || (bos_ && tokens_[position] == *bos_);
  }

 private:
  std::optional<uint32_t> bos_;
  std::vector<uint32_t> tokens_;
};

}  // namespace moepack::runtime
