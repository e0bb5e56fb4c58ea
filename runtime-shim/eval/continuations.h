// Greedy continuations of runs, for the loop test.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/eval/runs.h"

namespace moepack::runtime {

// A run that continues a prompt by its likeliest token.
struct Continuation {
  Run* run = nullptr;
  std::span<const uint32_t> prompt;
  std::vector<uint32_t> generated = {};
  uint32_t next = 0;
  bool ended = false;
};

struct ContinueOptions {
  uint32_t chunk = 128;    // tokens of each that run at once
  uint32_t generate = 64;  // tokens to generate
  const std::function<bool(uint32_t id)>& is_end;
};

// Runs of one model, which continue their prompts side by side. Observers rest meanwhile. Errors
// are those of sessions, and kInterrupted.
Status ContinueAll(std::vector<Continuation>& all, const ContinueOptions& options);

}  // namespace moepack::runtime
