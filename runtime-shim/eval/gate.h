// Conditions on measured values, such as kld<=0.15.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack::runtime {

// The metrics that a gate may name (docs/runtime-shim.md).
inline constexpr std::array kGateMetrics = {
    "kld", "total_kld", "quant_kld", "ppl_ratio", "total_ppl_ratio", "top1", "capture", "loops"};

struct Gate {
  std::string text;   // as it was given
  bool each = false;  // every group must meet it; otherwise the best group per session must
  std::string metric;
  std::string relation;  // <=, >=, <, >
  double value = 0;
  bool Holds(double measured) const;
};

// Parses [each.]METRIC RELATION NUMBER, with or without spaces. kInvalidArgument for anything else.
Result<Gate> ParseGate(std::string_view text);

}  // namespace moepack::runtime
