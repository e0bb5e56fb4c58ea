// How fast the model runs here, for a dry run.
#pragma once

#include <cstdint>

#include "runtime-shim/eval/evaluate.h"
#include "tools/commands/experiment/experiment_arguments.h"

namespace moepack::cli {

struct ProbedSpeed {
  uint64_t tokens = 0;  // that were run to find out
  double seconds_per_token = 0;
  uint64_t weight_bytes = 0;  // of the model as stored
};

// Runs the beginning of a session through the whole model.
Result<ProbedSpeed> ProbeSpeed(const ExperimentArguments& arguments, const TokenSession& session);

}  // namespace moepack::cli
