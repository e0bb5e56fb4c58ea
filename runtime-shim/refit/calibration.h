// The text that a refit learns from: windows of sessions, and their weight for each group.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/profile/windows.h"
#include "runtime-shim/refit/refit_options.h"

namespace moepack::runtime {

// For each session, the weight of its tokens' squared errors for each group; empty, as a whole or
// of a session: 1 for all.
using SessionWeights = std::vector<std::vector<float>>;

struct CalibrationWindow {
  std::vector<uint32_t> tokens;
  size_t session = 0;
  bool kept_back = false;
};

// What was taken of a bucket.
struct CalibrationBucket {
  std::string name;
  uint64_t sessions = 0, of_sessions = 0, tokens = 0, of_tokens = 0;
  uint64_t in_part = 0;  // of the sessions that were taken
};

struct Calibration {
  std::vector<CalibrationWindow> windows;
  std::vector<CalibrationBucket> buckets;  // in the order of their first session
  std::vector<uint64_t> taken;             // by session: its tokens that are in windows
  SessionWeights weights;                  // of every session
  uint64_t tokens = 0;

  // The weight of a window's tokens for a group.
  float WeightOf(const CalibrationWindow& window, size_t group) const {
    const std::vector<float>& own = weights[window.session];
    return own.empty() ? 1 : own[group];
  }
};

// By session, how many of its tokens a limit of `most` per bucket leaves; 0: no limit. Whole
// sessions are taken that are spread evenly over the bucket, in the order of their names
// (SpreadOrder), so that it is the same whatever the order of the files. No session gives more than
// an eighth of the limit as long as the others have enough: of a longer one a part is taken.
std::vector<uint64_t> TokensTaken(std::span<const TokenSession> sessions, uint64_t most);

// Cuts what is taken of the sessions into windows (SplitWindows); a part of a session is windows
// that are spread evenly over it. In a bucket with at least `fold` sessions every fold-th session
// is held out, and in others every fold-th window; in a text with fewer windows than that, the last
// one. kInvalidArgument for fewer than two windows.
Result<Calibration> MakeCalibration(std::span<const TokenSession> sessions,
                                    const SessionWeights& weights, const RefitOptions& options,
                                    std::optional<uint32_t> bos);

}  // namespace moepack::runtime
