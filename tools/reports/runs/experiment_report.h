// The output of `experiment`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/text/json.h"
#include "runtime-shim/experiment/run.h"

namespace moepack::cli {

// The rows with their errors, and how each split differs from the first. The document has more.
std::string ExperimentText(const runtime::ExperimentRule& rule,
                           const runtime::ExperimentState& state, const std::string& out);

// "wrote experiment.json: 4 rows on 12 held-out sessions".
std::string ExperimentLine(const runtime::ExperimentState& state, const std::string& out);

struct PlannedPass {
  std::string name;
  std::vector<std::string> rows;
  uint64_t runs = 0;          // of each token
  uint64_t tokens = 0;        // of all remaining runs
  uint64_t weight_bytes = 0;  // at most, for the models that are loaded together
  double seconds = 0;
};
struct ExperimentDryRun {
  uint64_t sessions = 0, tokens = 0, memory = 0, probed_tokens = 0;
  std::vector<PlannedPass> passes;
  std::vector<size_t> looks;
};
std::string ExperimentDryRunText(const ExperimentDryRun& plan);
moepack::Json ExperimentDryRunJson(const ExperimentDryRun& plan);

}  // namespace moepack::cli
