// Reads the figures of an experiment's JSON for those who draw them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "runtime-shim/experiment/estimate.h"

namespace moepack::cli {

// One row, each session on the node that captures most of it.
struct ExperimentFigures {
  std::string row;  // need not be ours
  bool refitted = false;
  std::optional<uint64_t> node_bytes;  // of the largest node; none without a split
  uint64_t sessions = 0;
  runtime::Estimate kld, loss, top1;
  std::string from;                         // what it is compared with; "" for nothing
  std::optional<runtime::Estimate> change;  // of the KLD, against that
};

struct ExperimentResults {
  bool complete = false;
  std::vector<ExperimentFigures> rows;  // those that have sessions
};

// The document may be hostile. kCorrupt names the field, kUnsupported another version.
Result<ExperimentResults> ExperimentFromJson(const std::string& where, const Json& document);

}  // namespace moepack::cli
