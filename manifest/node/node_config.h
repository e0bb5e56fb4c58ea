// Makes a node's config.json: the source's, with the node's expert count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/config.h"
#include "libshard/plan/plan.h"

namespace moepack::manifest {

struct NodeConfig {
  std::string text;                // the new config.json
  std::vector<std::string> notes;  // what else had to change
};

struct ConfigOfModel {
  const std::string& where;
  const std::string& text;    // the source's config.json
  const ModelConfig& config;  // what was read from it
  const Routing& routing;     // with the family's defaults
  uint32_t top_k = 0;         // experts that a token uses on the node; 0: as the config says
};

// If the router has several groups, they are kept if every layer keeps the same number of experts
// of each group, at least 2, and top-k still fits. Otherwise n_group and topk_group become 1 and a
// note says so.
Result<NodeConfig> MakeNodeConfig(const ConfigOfModel& source, const Plan& plan, size_t group);

}  // namespace moepack::manifest
