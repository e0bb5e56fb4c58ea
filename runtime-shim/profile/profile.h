// Runs texts through a model, and lets a collector see how they are routed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "libshard/base/result.h"
#include "runtime-shim/profile/collector.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

struct ProfileOptions {
  uint32_t context = 512;  // tokens of a window
  uint32_t chunk = 128;    // tokens that run at once
  uint32_t generate = 0;   // tokens to decode greedily after the last window
  std::optional<uint32_t> bos;
  std::function<bool(uint32_t id)> is_end;       // ends a generation; may be empty
  std::function<void(uint64_t tokens)> advance;  // after each step; may be empty
};

// Runs the windows of `tokens` one after the other, then decodes. Errors are those of sessions, and
// kInterrupted. REQUIRES: `session` holds context + generate positions and has `collector` as its
// observer; StartSession was called.
Status ProfileTokens(std::span<const uint32_t> tokens, const ProfileOptions& options,
                     Session& session, StatisticsCollector& collector);

}  // namespace moepack::runtime
