// Lays out the weight files of a node before its distribution exists: what `assemble` will make
// from the bundles. Private to libshard/fit/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/format/output_file.h"
#include "libshard/model/model.h"
#include "libshard/plan/plan.h"

namespace moepack {

struct GgufNodeInput {
  const std::string& where;  // names the source in errors
  const GgufModel& model;    // typed
  uint64_t alignment = 0;
};
// Returns head and experts of a split set whose trunk is `trunk` (roles kHead, kTrunk, kGroup).
// REQUIRES: `plan` has no layers that the model lacks (PlanFor).
Result<std::vector<OutputFile>> LayOutGgufNode(const GgufNodeInput& input, const Plan& plan,
                                               size_t group, OutputFile trunk);

// Returns the two safetensors files of a node, trunk and experts. `bundles` are the distribution's
// files of trunk, group and overlay, laid out.
Result<std::vector<OutputFile>> LayOutCheckpointNode(const MoeModel& model, const Plan& plan,
                                                     size_t group,
                                                     const std::vector<OutputFile>& bundles);

// Returns how many experts every router of the node may pick from; kUnsupported if layers differ.
Result<uint32_t> NodeExpertCount(const Plan& plan, size_t group);

}  // namespace moepack
