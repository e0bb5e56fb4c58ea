// A session that writes text: runs a prompt, then one token after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/session/sampler.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

class Generation {
 public:
  // REQUIRES: CheckSampling(sampling), a session without positions.
  Generation(std::unique_ptr<Session> session, const Sampling& sampling)
      : session_(std::move(session)), sampler_(sampling) {}

  // Runs tokens after what is there. Errors: Session::Feed.
  Status Prefill(std::span<const uint32_t> tokens);
  // Picks the next token; it runs when the one after it is asked for. kInvalidArgument before any
  // prompt; the errors of Session::Feed, among them that the context is full.
  Result<NextToken> Decode();

  // Whether Decode would fail because the context has no place for the token it gave last.
  bool full() const { return pending_ && session_->length() == session_->context(); }

 private:
  Status RunPending();

  std::unique_ptr<Session> session_;
  Sampler sampler_;
  std::optional<uint32_t> pending_;  // picked, not yet run
  std::vector<float> logits_;        // after the last token that ran
};

}  // namespace moepack::runtime
