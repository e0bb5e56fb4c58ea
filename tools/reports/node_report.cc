#include "tools/reports/node_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

void Include(CountRange& range, uint64_t count, bool first) {
  range.least = first ? count : std::min(range.least, count);
  range.most = std::max(range.most, count);
}

std::string RangeText(const CountRange& range) {
  if (range.least == range.most) return std::to_string(range.most);
  return Cat(range.least, "-", range.most);
}

Json RangeJson(const CountRange& range) { return {{"least", range.least}, {"most", range.most}}; }

// The node's fill, most of which is in its group, and some in the current overlay.
ExpertIds NodeFill(const Plan& plan, size_t group, uint32_t layer) {
  const ExpertIds& own = moepack::IdsOf(plan.groups[group].fill, layer);
  const OverlayPlan* overlay = plan.current_overlay();
  if (overlay == nullptr) return own;
  return Union(own, moepack::IdsOf(moepack::FillOf(*overlay, group), layer));
}

ExpertIds NodeOverlay(const Plan& plan, uint32_t layer) {
  const OverlayPlan* overlay = plan.current_overlay();
  return overlay == nullptr ? ExpertIds() : moepack::IdsOf(overlay->experts_by_layer, layer);
}

}  // namespace

NodeExperts CountNodeExperts(const Plan& plan, size_t group) {
  NodeExperts node;
  bool first = true;
  for (const auto& [layer, expert_count] : plan.layers) {
    Include(node.owned, moepack::IdsOf(plan.groups[group].owned, layer).size(), first);
    Include(node.fill, NodeFill(plan, group, layer).size(), first);
    Include(node.overlay, NodeOverlay(plan, layer).size(), first);
    Include(node.eligible, Eligible(plan, group, layer).size(), first);
    first = false;
  }
  return node;
}

PartBytes BytesOfFiles(const std::vector<OutputFile>& files, const Plan& plan) {
  PartBytes bytes;
  bytes.groups.resize(plan.groups.size());
  const OverlayPlan* overlay = plan.current_overlay();
  for (const OutputFile& file : files) {
    if (file.role == Role::kTrunk || file.role == Role::kHead) bytes.trunk += file.size;
    const bool current =
        overlay != nullptr && OverlayVersionOf(file.role, file.path) == overlay->version;
    if (current) bytes.overlay += file.size;
    if (file.role == Role::kRemainder) bytes.remainder += file.size;
    if (file.group) bytes.groups[*file.group] += file.size;
  }
  return bytes;
}

PartBytes BytesOfManifest(const manifest::Manifest& manifest) {
  PartBytes bytes;
  bytes.trunk = manifest.BytesOf(Role::kTrunk) + manifest.BytesOf(Role::kHead);
  bytes.overlay = manifest.BytesOfOverlay();
  bytes.remainder = manifest.BytesOf(Role::kRemainder);
  for (uint32_t group = 0; group < manifest.plan.groups.size(); ++group) {
    bytes.groups.push_back(manifest.BytesOf(Role::kGroup, group));
  }
  return bytes;
}

std::string NodeTable(const Plan& plan, const PartBytes* bytes) {
  const auto size = [&](uint64_t value) {
    return bytes == nullptr ? std::string("-") : FormatBytes(value);
  };
  Table table({">node", ">owned", ">fill", ">overlay", ">eligible", ">trunk", ">group", ">overlay",
               ">total"});
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    const NodeExperts node = CountNodeExperts(plan, group);
    const PartBytes none{0, 0, 0, std::vector<uint64_t>(plan.groups.size())};
    const PartBytes& parts = bytes == nullptr ? none : *bytes;
    table.Row({std::to_string(group), RangeText(node.owned), RangeText(node.fill),
               RangeText(node.overlay), RangeText(node.eligible), size(parts.trunk),
               size(parts.groups[group]), size(parts.overlay), size(parts.Node(group))});
  }
  return "experts per layer of each node, and bytes of its parts\n" + table.Render();
}

Json NodesToJson(const Plan& plan, const PartBytes* bytes) {
  Json nodes = Json::array();
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    const NodeExperts node = CountNodeExperts(plan, group);
    Json json = {{"group", group},
                 {"owned", RangeJson(node.owned)},
                 {"fill", RangeJson(node.fill)},
                 {"overlay", RangeJson(node.overlay)},
                 {"eligible", RangeJson(node.eligible)}};
    if (bytes != nullptr) {
      json["bytes"] = {{"trunk", bytes->trunk},
                       {"group", bytes->groups[group]},
                       {"overlay", bytes->overlay},
                       {"total", bytes->Node(group)}};
    }
    nodes.push_back(std::move(json));
  }
  return nodes;
}

}  // namespace moepack::cli
