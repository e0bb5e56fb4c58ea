// A session that generates text: it runs a prompt, then one token after another.
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
  // REQUIRES: CheckSampling(sampling), and a session without positions.
  Generation(std::unique_ptr<Session> session, const Sampling& sampling)
      : session_(std::move(session)), sampler_(sampling) {}

  // Runs tokens after those already there. Errors are those of Session::Feed.
  Status Prefill(std::span<const uint32_t> tokens);
  // Picks the next token, and runs the one picked before, so the last token of a text is never run.
  // kInvalidArgument before any prompt; otherwise the errors of Session::Feed, such as a full
  // context.
  Result<NextToken> Decode();

  // True if Decode would fail because the context has no room for the token it returned last.
  bool full() const { return pending_ && session_->length() == session_->context(); }

 private:
  Status RunPending();

  std::unique_ptr<Session> session_;
  Sampler sampler_;
  std::optional<uint32_t> pending_;  // picked, not yet run
  std::vector<float> logits_;        // after the last token that ran
};

}  // namespace moepack::runtime
