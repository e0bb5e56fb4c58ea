#include "manifest/node/diff_nodes.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "manifest/document/diff_steps.h"
#include "manifest/document/node_record.h"

namespace moepack::manifest {
namespace {

constexpr const char* kOtherLayers = "*";

void CompareNumbers(const NodeRecord& a, const NodeRecord& b, Changes& changes) {
  const auto compare = [&](const char* what, const char* name, const std::string& before,
                           const std::string& after) {
    if (before != after) changes.push_back({what, name, before, after});
  };
  compare("model", "version", a.versions.model, b.versions.model);
  compare("partition", "version", a.versions.shard, b.versions.shard);
  compare("overlay", "version", a.versions.replica, b.versions.replica);
  compare("refit", "version", a.versions.refit, b.versions.refit);
  compare("distribution", "sha256", a.distribution_sha256, b.distribution_sha256);
  compare("node", "group", Cat(a.group), Cat(b.group));
}

// "*" applies to the layers without a key of their own.
std::string IdsOf(const NodeRecord& record, const std::string& layer) {
  const auto own = record.experts_by_layer.find(layer);
  const auto found =
      own == record.experts_by_layer.end() ? record.experts_by_layer.find(kOtherLayers) : own;
  return found == record.experts_by_layer.end() ? "" : found->second;
}

void CompareExperts(const NodeRecord& a, const NodeRecord& b, Changes& changes) {
  std::set<uint32_t> layers;
  for (const NodeRecord* record : {&a, &b}) {
    for (const auto& [layer, ids] : record->experts_by_layer) {
      const std::optional<uint64_t> number = ParseUint(layer);
      if (number) layers.insert(static_cast<uint32_t>(*number));
    }
  }
  LayerChanges differing;
  for (const uint32_t layer : layers) {
    const std::string before = IdsOf(a, Cat(layer)), after = IdsOf(b, Cat(layer));
    if (before != after) differing.Add(layer, {"node", "experts", before, after});
  }
  differing.MoveTo(changes);
  // A list without "*" names every layer, and these were compared above.
  const auto before = a.experts_by_layer.find(kOtherLayers),
             after = b.experts_by_layer.find(kOtherLayers);
  if (before == a.experts_by_layer.end() || after == b.experts_by_layer.end() ||
      before->second == after->second)
    return;
  changes.push_back({"node", layers.empty() ? "experts" : "other layers, experts", before->second,
                     after->second});
}

}  // namespace

DiffReport DiffNodes(const NodeRecord& a, const NodeRecord& b) {
  DiffReport report;
  CompareNumbers(a, b, report.changes);
  CompareExperts(a, b, report.changes);
  CompareFiles("file", a.files, b.files, report.changes);
  CompareFields("tool", NodeToolToJson(a), NodeToolToJson(b), {}, report.changes);
  TextSet<std::string_view> digests;
  for (const NodeFileRecord& file : a.files) digests.insert(file.sha256);
  for (const NodeFileRecord& file : b.files) {
    (digests.contains(file.sha256) ? report.same_bytes : report.changed_bytes) += file.size;
  }
  return report;
}

}  // namespace moepack::manifest
