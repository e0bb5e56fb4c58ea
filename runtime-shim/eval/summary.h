// Measures of many sessions as figures that can be compared.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime-shim/eval/evaluate.h"
#include "runtime-shim/eval/gate.h"
#include "runtime-shim/eval/race.h"

namespace moepack::runtime {

// Of held-out tokens, in nats.
struct Likelihood {
  uint64_t tokens = 0;
  double log_probability = 0;  // mean
  double perplexity = 0, perplexity_error = 0;
};

// KL divergence of one run from another, per token.
struct Damage {
  double mean = 0, error = 0;
  double median = 0, p90 = 0, p99 = 0, p999 = 0, largest = 0;
  double top1 = 0;  // share of tokens with the same best continuation
  double perplexity_ratio = 1, perplexity_ratio_error = 0;
};

struct CaptureSpread {
  double mean = 0, p5 = 0, p25 = 0;  // over tokens
};

struct LoopRate {
  uint64_t sessions = 0, looping = 0;
  double repeated_share = 0;  // mean
  double rate() const;
};

// One group over all sessions, or every session under a group chosen for it.
struct EvalRow {
  std::string label;
  uint64_t sessions = 0;
  Likelihood likelihood;
  std::optional<Damage> split;                    // KL(F || M)
  std::optional<Damage> total;                    // KL(R || M)
  std::vector<CaptureSpread> teacher, on_policy;  // per MoE layer
  double capture = 0, on_policy_capture = 0;      // means over layers
  std::optional<LoopRate> loops;
};

struct EvalBase {
  Likelihood likelihood;
  std::optional<LoopRate> loops;
};

// Which group suits a session. Capture and divergence need not agree.
struct SessionChoice {
  std::string name, bucket;
  uint64_t tokens = 0;              // scored
  std::vector<double> captures;     // mean teacher capture per group
  uint32_t by_capture = 0;          // the group with the largest
  std::vector<double> divergences;  // mean KL(F || M) per group, without F KL(R || M)
  uint32_t by_kld = 0;              // the group with the smallest
  RaceResult race;
};

// A group on the sessions that capture assigns to it, and on the others.
struct Assignment {
  uint64_t sessions = 0;
  double assigned = 0, others = 0;  // mean capture
};

struct EvalSummary {
  std::vector<uint32_t> layers;  // MoE layers
  std::optional<EvalBase> reference, full;
  std::optional<Damage> quantization;  // KL(R || F)
  std::vector<EvalRow> groups;
  // Every session under a group that was chosen for it; none without groups.
  std::optional<EvalRow> best_by_capture, best_by_kld, raced;
  // Over all sessions, the groups with the largest capture and the smallest divergence.
  uint32_t most_capture = 0, least_kld = 0;
  std::vector<Assignment> assignments;
  std::vector<SessionChoice> sessions;
  // Sessions for which the race, or the divergence, chooses the group that capture does.
  uint64_t agreements = 0, kld_agreements = 0;
};

// REQUIRES: what Evaluate returned for `input`.
EvalSummary SummarizeEvaluation(const EvalInput& input, std::span<const SessionMeasure> measures,
                                uint32_t race_tokens);

// Says why gates fail, one sentence each: "group 1: kld: expected <= 0.15, found 0.31".
// kInvalidArgument for a gate on something that was not measured.
Result<std::vector<std::string>> FailedGates(const EvalSummary& summary,
                                             std::span<const Gate> gates);

}  // namespace moepack::runtime
