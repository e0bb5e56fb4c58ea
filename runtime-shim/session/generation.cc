#include "runtime-shim/session/generation.h"

#include "libshard/base/text/text.h"

namespace moepack::runtime {

Status Generation::RunPending() {
  if (!pending_) return Ok();
  const uint32_t token = *pending_;
  SHARD_TRY(logits_, session_->Feed(std::span(&token, 1), LogitsOf::kLast));
  pending_.reset();
  return Ok();
}

Status Generation::Prefill(std::span<const uint32_t> tokens) {
  SHARD_CHECK(RunPending());
  SHARD_TRY(logits_, session_->Feed(tokens, LogitsOf::kLast));
  return Ok();
}

Result<NextToken> Generation::Decode() {
  SHARD_CHECK(RunPending());
  if (logits_.empty())
    return Error{Code::kInvalidArgument, "decode: expected a prompt, found an empty session"};
  const NextToken next = sampler_.Pick(logits_);
  pending_ = next.id;
  return next;
}

}  // namespace moepack::runtime
