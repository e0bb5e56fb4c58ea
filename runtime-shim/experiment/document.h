// The document of an experiment, from which a later run can resume (docs/experiment.md).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "runtime-shim/experiment/run.h"

namespace moepack::runtime {

inline constexpr const char* kExperimentFormat = "moepack-experiment";
inline constexpr uint64_t kExperimentVersion = 1;

// {"format", "version", "setup", "looks", "complete", "rows"}. `setup` is everything that
// determines the figures. Figures exist once a row has sessions; they follow from its sessions.
Json ExperimentToJson(const Json& setup, const ExperimentRule& rule, const ExperimentState& state);

// What an earlier run has finished.
struct FinishedSessions {
  Json setup;
  std::vector<std::vector<SessionFigures>> rows;
};
// The document may be hostile. kCorrupt for one that is not an experiment, kUnsupported for a later
// version.
Result<FinishedSessions> ReadExperiment(const std::string& path);

// Puts the sessions into the rows of `state`. kCorrupt if rows, sessions or their nodes are not
// those expected. `nodes` has the number of nodes of each row.
Status Resume(const std::string& path, FinishedSessions finished,
              std::span<const TokenSession> sessions, std::span<const size_t> nodes,
              ExperimentState& state);

}  // namespace moepack::runtime
