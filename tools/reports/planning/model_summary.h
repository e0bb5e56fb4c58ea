// What a checkpoint is, on one screen: family, layers, experts, parameters, bytes by part, and how
// large a node would be.
#pragma once

#include <cstdint>
#include <string>

#include "libshard/base/text/json.h"
#include "libshard/check/promised_model.h"
#include "libshard/model/model.h"
#include "tools/reports/planning/node_sizes.h"

namespace moepack::cli {

// "30.5B total, 3.4B active (31B-A3.4B, 3.4B-128E)"; "unknown" for a names-only checkpoint. The
// names count active parameters as the family's model cards do; if those leave tensors out, both
// figures are given. `partial` says that tensors are not counted: "at least 23.6B total".
std::string ParameterSpelling(const MoeModel& model, const ParameterCount& parameters,
                              bool partial = false);

struct Summary {
  const MoeModel& model;
  const NodeSizes& nodes;
  const PromisedModel* promised = nullptr;  // of a config without tensors
};
std::string SummaryText(const Summary& summary);
// "qwen3moe: 30.5B total, 3.4B active (30B-A3B, ...); 48 layers, ...".
std::string SummaryLine(const Summary& summary);
moepack::Json SummaryJson(const Summary& summary);

}  // namespace moepack::cli
