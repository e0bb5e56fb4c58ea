#include "runtime-shim/load/gguf_blocks.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/graph/model_spec.h"
#include "libshard/model/gguf_config.h"
#include "libshard/model/gguf_keys.h"

namespace moepack::runtime {

std::optional<uint32_t> BlockOf(std::string_view tensor) {
  constexpr uint64_t kMost = 1u << 20;  // more than any block_count
  const std::optional<BlockName> name = ParseBlockName(tensor);
  if (!name) return std::nullopt;
  return static_cast<uint32_t>(std::min(name->block, kMost));
}

Result<RunningBlocks> RunningBlocks::Of(const std::string& path, const GgufMetadata& metadata) {
  // Before weights are read, whose types may be unknown too.
  SHARD_CHECK(RuntimeFamilyOf(path, metadata));
  // about routing; they are dropped, because ModelSpec reads the routing itself
  std::vector<std::string> warnings;
  SHARD_TRY(const ModelConfig config, ReadGgufConfig(path, metadata, warnings));
  RunningBlocks blocks;
  blocks.layers_ = config.layers;
  blocks.left_out_ = config.mtp_layers;
  return blocks;
}

Plan RunningBlocks::Trim(Plan plan) const {
  const auto absent = [&](const auto& entry) { return entry.first >= layers_; };
  std::erase_if(plan.layers, absent);
  std::erase_if(plan.top_k, absent);
  std::erase_if(plan.remainder, absent);
  for (OverlayPlan& overlay : plan.overlays) moepack::KeepLayers(plan.layers, overlay);
  for (GroupPlan& group : plan.groups) {
    std::erase_if(group.owned, absent);
    std::erase_if(group.fill, absent);
  }
  return plan;
}

void RunningBlocks::AddNote(Weights& weights) const {
  if (left_out_ == 0) return;
  weights.notes.push_back(
      Cat(Plural(left_out_, "block"), " for multi-token prediction: not loaded"));
}

void AddRouter(std::string_view name, const std::vector<uint64_t>& shape, Weights& weights) {
  const std::optional<uint32_t> block = BlockOf(name);
  if (!block || shape.empty() || !name.ends_with(".ffn_gate_inp.weight")) return;
  weights.moe_layers[*block] = static_cast<uint32_t>(shape[0]);
}

}  // namespace moepack::runtime
