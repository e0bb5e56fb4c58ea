// The routing of a model as keys of its GGUF.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/arch_keys.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/routing.h"

namespace moepack {

// What AddBaseKeys and the routing keys ask of the model.
struct RoutingToWrite {
  Routing routing;       // as the model has it
  StatedRouting stated;  // what config.json says of it
};

// expert_group_count and expert_group_used_count, where config or family has groups.
void AddGroupKeys(const RoutingToWrite& model, ArchKeys& keys);
// expert_gating_func where the config states the function, and where the graph reads the key and
// would take softmax without it.
void AddGatingKey(const RoutingToWrite& model, ArchKeys& keys);
// expert_weights_scale and expert_weights_norm, of architectures whose graphs read them.
void AddWeightKeys(const Routing& routing, ArchKeys& keys);

// kUnsupported where the graph that gets `metadata` would pick or weigh otherwise than the model.
// How it scores routing groups is no reason to refuse: that is a warning.
Status CheckGraphRouting(const HfConfig& config, const Routing& model, const GgufMetadata& metadata,
                         std::vector<std::string>& warnings);

}  // namespace moepack
