// Summarizes the measures of many sessions as figures that can be compared.
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

// The likelihood of held-out tokens, in nats.
struct Likelihood {
  uint64_t tokens = 0;
  double log_probability = 0;  // mean
  double perplexity = 0, perplexity_error = 0;
};

// KL divergence of one run from another, over tokens.
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

// The figures of one group over all sessions, or of every session with a group chosen for it.
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

// How well a rule chooses the group of each session, compared to the choice with the lowest
// divergence.
struct RuleFigures {
  std::string rule;
  uint64_t sessions = 0;  // for which it names a group that was run
  double accuracy = 0;    // share of them with the same choice
  double regret = 0;      // mean additional divergence of its choices, in nats per token
  std::optional<uint64_t> sure, sure_right;  // for a table: answers that it is sure of
};

// The group that suits a session. Capture and divergence need not agree.
struct SessionChoice {
  std::string name, bucket;
  uint64_t tokens = 0;              // scored
  std::vector<double> captures;     // mean teacher capture per group
  uint32_t by_capture = 0;          // the group with the largest
  std::vector<double> divergences;  // mean KL(F || M) per group; without F, KL(R || M)
  uint32_t by_kld = 0;              // the group with the smallest
  RaceResult race;
  std::optional<PlacementAnswer> placed;  // according to the table
  std::optional<uint32_t> by_table;       // its index among the groups that were run
};

// A group's capture on the sessions assigned to it by capture, and on the others.
struct Assignment {
  uint64_t sessions = 0;
  double assigned = 0, others = 0;  // mean capture
};

struct EvalSummary {
  std::vector<uint32_t> layers;  // MoE layers
  std::optional<EvalBase> reference, full;
  std::optional<Damage> quantization;  // KL(R || F)
  std::vector<EvalRow> groups;
  // The figures with every session on a group chosen for it; no value without groups.
  std::optional<EvalRow> best_by_capture, best_by_kld, raced;
  // The groups with the largest capture and the smallest divergence over all sessions.
  uint32_t most_capture = 0, least_kld = 0;
  std::vector<Assignment> assignments;
  std::vector<SessionChoice> sessions;
  // The numbers of sessions for which the race, or the divergence, chooses the same group as
  // capture.
  uint64_t agreements = 0, kld_agreements = 0;
  // For the table, the race, capture, and a random group; empty without a placement table.
  std::vector<RuleFigures> rules;
};

// Compares the ways to choose a group. REQUIRES: sessions of SummarizeEvaluation.
std::vector<RuleFigures> SummarizeRules(std::span<const SessionChoice> sessions);

// Summarizes an evaluation. REQUIRES: `measures` is what Evaluate returned for `input`.
EvalSummary SummarizeEvaluation(const EvalInput& input, std::span<const SessionMeasure> measures,
                                uint32_t race_tokens);

// kInvalidArgument for a gate on something that Evaluate will not measure.
Status CheckMeasured(std::span<const Gate> gates, const EvalInput& input,
                     const EvalOptions& options);

// Returns one sentence per failed gate: "group 1: kld: expected <= 0.15, found 0.31".
// kInvalidArgument for a gate on something that was not measured.
Result<std::vector<std::string>> FailedGates(const EvalSummary& summary,
                                             std::span<const Gate> gates);

}  // namespace moepack::runtime
