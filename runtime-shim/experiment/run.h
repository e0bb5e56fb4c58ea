// Runs an experiment: every row over the same sessions, look by look.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/eval/evaluate.h"
#include "runtime-shim/experiment/rows.h"

namespace moepack::runtime {

// Open models, and what is evaluated on them.
struct OpenedPass {
  EvalInput input;
  EvalOptions options;
  std::vector<std::shared_ptr<const void>> models;  // what `input` borrows
};

// Rows that are measured together because they are masks of the same weights.
struct ExperimentPass {
  struct Part {
    size_t row = 0;     // of ExperimentState::rows
    GroupRange groups;  // of OpenedPass::input
  };
  std::string name;  // "model", "Q4_K_M"
  std::vector<Part> parts;
  // Opens the models; called once per look, if something is left to run.
  std::function<Result<std::unique_ptr<OpenedPass>>()> open;
};

struct ExperimentRule {
  std::vector<size_t> looks;  // of PlanLooks
  double until_error = 0;     // stop at the first look at which LargestError is no larger; 0: never
};

struct ExperimentState {
  std::vector<ExperimentRow> rows;
  size_t looks_made = 0;
  bool stopped = false;   // by the rule, before the last look
  bool complete = false;  // the rule has ended it
};

struct ExperimentCalls {
  // Called after every session of a pass with the state so far; may be empty.
  std::function<Status(const ExperimentState& state)> save;
  uint32_t race_tokens = 32;
};

// Resumes where `state` ends: sessions that a row already has are not run again. `sessions` are in
// the order of OrderSessions. Errors are those of `open`, Evaluate and `save`; what was done before
// is in `state`. REQUIRES: the sessions of each row are a prefix of `sessions`.
Status RunExperiment(std::span<const ExperimentPass> passes, std::span<const TokenSession> sessions,
                     const ExperimentRule& rule, const ExperimentCalls& calls,
                     ExperimentState& state);

}  // namespace moepack::runtime
