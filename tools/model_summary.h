// What a checkpoint is, in one screen: family, layers, experts, parameters, bytes by part, and how
// large a node would be.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/json.h"
#include "libshard/model.h"

namespace cli {

struct PartTotal {
  shard::Part part = shard::Part::kTrunk;
  uint64_t tensors = 0, bytes = 0;
};
std::array<PartTotal, 4> TotalsByPart(const shard::MoeModel& model);

// Bytes of one node when every layer's experts are divided evenly, without overlay: the trunk and
// the largest group.
struct NodeSize {
  uint32_t groups = 0;
  uint64_t source = 0;              // as the checkpoint stores them
  std::vector<uint64_t> quantized;  // one per NodeSizes::types: experts at that type, all else q8_0
};
struct NodeSizes {
  std::vector<std::string> types;  // empty when parameters cannot be told apart (no top-k known)
  std::vector<NodeSize> rows;      // for 2, 4, 8 and 16 groups, while a layer has so many experts
};
// Nothing for a names-only checkpoint, whose sizes are unknown.
std::optional<NodeSizes> EstimateNodeSizes(const shard::MoeModel& model,
                                           const shard::ParameterCount& parameters);

// "30.5B total, 3.3B active (30B-A3B, 3B-128E)"; "unknown" for a names-only checkpoint.
std::string ParameterSpelling(const shard::MoeModel& model,
                              const shard::ParameterCount& parameters);

std::string SummaryText(const shard::MoeModel& model);
shard::Json SummaryJson(const shard::MoeModel& model);

}  // namespace cli
