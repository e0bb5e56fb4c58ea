// A model and a session with made-up logits, for code that only looks at logits.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "runtime-shim/session/session.h"

namespace moepack::runtime {

class FakeModel : public Model {
 public:
  const ModelSpec& spec() const override { return spec_; }
  const Weights& weights() const override { return weights_; }
  Executor& executor() const override { throw std::logic_error("a fake has no executor"); }
  uint64_t device_bytes() const override { return 0; }
  uint32_t vocabulary() const override { return 4; }
  uint64_t bytes_per_token() const override { return bytes_per_token_; }
  uint64_t bytes_per_position() const override { return bytes_per_position_; }
  uint64_t bytes_per_session() const override { return bytes_per_session_; }

  ModelSpec spec_;
  Weights weights_;
  uint64_t bytes_per_token_ = 1, bytes_per_position_ = 1, bytes_per_session_ = 0;
};

// The logits of position p, which holds token t, are logits(p, t).
class FakeSession : public Session {
 public:
  using Logits = std::function<std::vector<float>(uint32_t position, uint32_t token)>;
  explicit FakeSession(Logits logits, uint32_t context = 100)
      : logits_(std::move(logits)), context_(context) {}

  Result<std::vector<float>> Feed(std::span<const uint32_t> tokens, LogitsOf which) override {
    if (tokens.empty() || tokens.size() > context_ - fed_.size())
      return Error{Code::kInvalidArgument, "no room"};
    std::vector<float> all;
    for (const uint32_t token : tokens) {
      const std::vector<float> row = logits_(length(), token);
      if (which == LogitsOf::kLast) all.clear();
      all.insert(all.end(), row.begin(), row.end());
      fed_.push_back(token);
    }
    return all;
  }
  Status Route(std::span<const uint32_t>, uint32_t) override { return Ok(); }
  uint32_t length() const override { return static_cast<uint32_t>(fed_.size()); }
  uint32_t context() const override { return context_; }
  void Rewind(uint32_t length) override { fed_.resize(length); }
  const Model& model() const override { return model_; }

  std::vector<uint32_t> fed_;

 private:
  Logits logits_;
  uint32_t context_;
  FakeModel model_;
};

}  // namespace moepack::runtime
