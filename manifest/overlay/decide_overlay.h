// Decides what a new version of a distribution's overlay holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/plan/plan.h"
#include "libshard/stats/expert_scores.h"

namespace moepack::manifest {

struct NamedScores {
  std::string name;  // of the file, for messages
  ExpertScores scores;
};

struct OverlayRequest {
  std::string file;                 // an overlay file; "": the best by `scores`
  std::vector<NamedScores> scores;  // several are added up
  std::optional<uint32_t> size;     // experts per layer, with scores; none: as many as the parent
  // "": that of the file, otherwise that of the parent with its last number increased by one.
  std::string version;
  std::string parent;  // "": the current overlay, if there is one
};

struct DecidedOverlay {
  OverlayPlan overlay;             // with its fill
  std::vector<std::string> notes;  // layers that hold fewer experts than requested
};

// `where` is the distribution. With scores, an overlay holds the best experts of each layer that
// not every group holds: the others would change nothing for any node. kNotFound for a missing
// parent; kInvalidArgument for an existing version, scores that do not fit each other, a size that
// is unknown or larger than a layer, and groups that all hold the same; kMismatch for scores of
// other layers; otherwise the errors of ReadOverlayFile and FillOverlay.
Result<DecidedOverlay> DecideOverlay(const std::string& where, const Plan& plan,
                                     const OverlayRequest& request);

}  // namespace moepack::manifest
