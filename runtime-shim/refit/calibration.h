// The text that a refit learns from: windows of sessions, and their weight for each group.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"

namespace moepack::runtime {

struct CalibrationSession {
  std::string name, bucket;
  std::span<const uint32_t> tokens;
  // The weight of its tokens' squared errors for each group; empty: 1 for all.
  std::vector<float> weights;
};

struct CalibrationOptions {
  uint32_t context = 512;  // tokens of a window
  uint64_t tokens = 0;     // at most about this many per bucket; 0: all
  uint32_t fold = 8;       // one in this many sessions, or windows, is held out; at least 2
  std::optional<uint32_t> bos;
};

struct CalibrationWindow {
  std::vector<uint32_t> tokens;
  size_t session = 0;
  bool kept_back = false;
};

struct Calibration {
  std::vector<CalibrationWindow> windows;
  std::vector<std::vector<float>> weights;  // by session and group, as CalibrationSession has them
  uint64_t tokens = 0;

  // The weight of a window's tokens for a group.
  float WeightOf(const CalibrationWindow& window, size_t group) const {
    const std::vector<float>& own = weights[window.session];
    return own.empty() ? 1 : own[group];
  }
};

// Cuts sessions into windows (SplitWindows). In a bucket with at least `fold` sessions every
// fold-th session is held out, and in others every fold-th window; in a text with fewer windows
// than that, the last one. kInvalidArgument for fewer than two windows.
Result<Calibration> MakeCalibration(std::span<const CalibrationSession> sessions,
                                    const CalibrationOptions& options);

}  // namespace moepack::runtime
