// Writes the routing of a model as keys of its GGUF.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/arch_keys.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/routing.h"

namespace moepack {

// The routing that AddBaseKeys and the functions below write.
struct RoutingToWrite {
  Routing routing;       // the routing of the model
  StatedRouting stated;  // the part that config.json states
};

// Adds expert_group_count and expert_group_used_count if the config or family has groups.
void AddGroupKeys(const RoutingToWrite& model, ArchKeys& keys);
// Adds expert_gating_func if the config states the function, or if the graph would assume softmax
// without the key.
void AddGatingKey(const RoutingToWrite& model, ArchKeys& keys);
// Adds expert_weights_scale and expert_weights_norm for architectures whose graphs read them.
void AddWeightKeys(const Routing& routing, ArchKeys& keys);

// Returns kUnsupported if the runtime's graph, given `metadata`, would select or weigh experts
// differently from the model. A different score of routing groups is only a warning.
Status CheckGraphRouting(const HfConfig& config, const Routing& model, const GgufMetadata& metadata,
                         std::vector<std::string>& warnings);

}  // namespace moepack
