// Reads the figures of an experiment's JSON for drawing them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "runtime-shim/experiment/estimate.h"

namespace moepack::cli {

// One row, with each session on the node that captures most of it.
struct ExperimentFigures {
  std::string row;  // may come from anywhere
  bool refitted = false, calibrated = false;
  std::optional<uint64_t> node_bytes;  // of the largest node; no value without a split
  uint64_t sessions = 0;
  runtime::Estimate kld, loss, top1;
  std::string from;                         // what it is compared with; "" for nothing
  std::optional<runtime::Estimate> change;  // of the KLD, compared to that
};

struct ExperimentResults {
  bool complete = false;
  std::vector<ExperimentFigures> rows;  // those with sessions
};

// The document may be hostile. kCorrupt names the field, kUnsupported another version.
Result<ExperimentResults> ExperimentFromJson(const std::string& where, const Json& document);

}  // namespace moepack::cli
