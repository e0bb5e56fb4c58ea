// Runs the same tokens through the reference model, the stored model and each node's part of it,
// and measures how they differ.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "libshard/plan/placement.h"
#include "runtime-shim/eval/capture.h"
#include "runtime-shim/eval/loops.h"
#include "runtime-shim/profile/windows.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

// A model with a mask. `open` starts a session with room for EvalOptions::context positions.
struct Participant {
  std::string label;
  LayerExperts eligible;
  std::function<Result<std::unique_ptr<Session>>(RoutingObserver*)> open;
  std::optional<uint32_t> group = std::nullopt;  // in the distribution
};

struct EvalInput {
  std::optional<Participant> reference;  // R: other weights (--against), unmasked
  std::optional<Participant> full;       // F: the weights of the groups, unmasked
  std::vector<Participant> groups;       // M
  LayerRouters routers;
  std::optional<PlacementTable> placement;  // of the distribution
  std::optional<uint32_t> bos;
  std::function<bool(uint32_t id)> is_end;  // ends a generation
};

struct EvalOptions {
  uint32_t context = 512;
  // Tokens of each run and window that run at once. Logits [chunk, vocabulary] of the reference are
  // held for each window.
  uint32_t chunk = 128;
  // Windows, of any sessions, that run side by side.
  uint32_t windows = 1;
  // For Participant::open: tokens of all runs of the distribution, and of the reference, that run
  // at once, and SessionOptions::logit_bytes.
  uint32_t own_batch = 128, reference_batch = 128;
  uint64_t logit_bytes = 64u << 20;
  // Groups that run in one pass; 0: all. More passes repeat the runs that groups are compared with.
  uint32_t groups_at_once = 0;
  bool score_half = false;
  // tokens to generate greedily for the loop test; 0: no loop test. Must be below `context`.
  uint32_t generate = 64;
  OnProgress progress = {};  // tokens of all runs; may be empty
  // Progress within sessions between two calls of `progress` (SessionOptions::ran); may be empty.
  std::function<void(double tokens)> ran = {};
};

// Two runs over the same scored tokens.
struct Comparison {
  std::vector<double> divergence;  // KL in nats, per token
  uint64_t agreements = 0;         // tokens for which both have the same best continuation
};

struct GroupMeasure {
  std::vector<double> log_probability;   // of each scored token
  Comparison from_full, from_reference;  // KL(F || M), KL(R || M)
  LayerCapture teacher, on_policy;
  std::optional<LoopResult> loop;
};

struct SessionMeasure {
  std::string name, bucket;
  std::vector<double> reference, full;    // log-probabilities; empty without such a run
  Comparison quantization;                // KL(R || F)
  std::vector<GroupMeasure> groups;       // as EvalInput::groups
  std::optional<PlacementAnswer> placed;  // according to the table, if there is a placement
  std::optional<LoopResult> reference_loop, full_loop;
};

// Runs all sessions. kInvalidArgument for a session in which no token would be scored; otherwise
// the errors of sessions, and kInterrupted. REQUIRES: a reference or a full run.
Result<std::vector<SessionMeasure>> Evaluate(const EvalInput& input,
                                             std::span<const TokenSession> sessions,
                                             const EvalOptions& options);

}  // namespace moepack::runtime
