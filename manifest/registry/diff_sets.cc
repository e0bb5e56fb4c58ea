#include "manifest/registry/diff_sets.h"

#include <algorithm>
#include <map>
#include <set>

#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/describe_set.h"
#include "manifest/registry/node_groups.h"
#include "manifest/registry/open_set.h"
#include "manifest/registry/pull_selection.h"

namespace moepack::registry {
namespace {

using manifest::Change;

constexpr size_t kShownDigits = 16;

// Shown like the files of two distributions (manifest/document/diff_steps.h).
std::string LayerText(const BlobRecord& layer) {
  return Cat(layer.size, " bytes, sha256 ", HexOf(layer.digest).substr(0, kShownDigits));
}

void CompareNotes(const Annotations& a, const Annotations& b, std::vector<Change>& changes) {
  std::set<std::string> keys;
  for (const Annotations* side : {&a, &b}) {
    for (const auto& [key, unused] : *side) keys.insert(key);
  }
  for (const std::string& key : keys) {
    const std::string before = AnnotationOf(a, key), after = AnnotationOf(b, key);
    if (before != after) changes.push_back({"annotation", key, before, after});
  }
}

// Layers by path; those without one by digest.
std::map<std::string, const BlobRecord*> ByName(const std::vector<BlobRecord>& layers) {
  std::map<std::string, const BlobRecord*> named;
  for (const BlobRecord& layer : layers)
    named[layer.path().empty() ? layer.digest : layer.path()] = &layer;
  return named;
}

void CompareByName(const OciManifest& a, const OciManifest& b, std::vector<Change>& changes) {
  const auto before = ByName(a.layers), after = ByName(b.layers);
  std::set<std::string> names;
  for (const auto* side : {&before, &after}) {
    for (const auto& [name, unused] : *side) names.insert(name);
  }
  for (const std::string& name : names) {
    const auto was = before.find(name), is = after.find(name);
    const std::string old_text = was == before.end() ? "" : LayerText(*was->second);
    const std::string new_text = is == after.end() ? "" : LayerText(*is->second);
    const bool same =
        was != before.end() && is != after.end() && was->second->digest == is->second->digest;
    if (!same) changes.push_back({"layer", name, old_text, new_text});
  }
}

void CountLayers(const OciManifest& a, const OciManifest& b, SetDiff& diff) {
  std::set<std::string> digests;
  for (const BlobRecord& layer : b.layers) digests.insert(layer.digest);
  const std::vector<BlobRecord> fresh = NewLayers(a.layers, b.layers);
  diff.added = fresh.size();
  diff.removed = NewLayers(b.layers, a.layers).size();
  diff.shared = digests.size() - fresh.size();
  diff.report.changed_bytes = BytesOf(fresh);
  diff.report.same_bytes = BytesOf(NewLayers({}, b.layers)) - diff.report.changed_bytes;
}

Status CompareNodes(const std::string& where, const OciManifest& a, const OciManifest& b,
                    std::optional<uint32_t> only, SetDiff& diff) {
  SHARD_TRY(const std::vector<uint32_t> groups, GroupsOf(where, b));
  for (const uint32_t group : groups) {
    if (only && *only != group) continue;
    const std::vector<BlobRecord> wanted = SelectLayers(b.layers, {group}, CurrentOverlay(b));
    const std::vector<BlobRecord> there = SelectLayers(a.layers, {group}, CurrentOverlay(a));
    diff.nodes.push_back({group, BytesOf(wanted), BytesOf(NewLayers(there, wanted))});
  }
  if (!only || !diff.nodes.empty()) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(where, ": group: expected ", FormatChoice(groups), ", found ", *only)};
}

}  // namespace

Result<SetDiff> DiffSets(const Reference& a, const Reference& b, std::optional<uint32_t> group,
                         const StoreAccess& access) {
  SHARD_TRY(const StorePtr from, OpenStore(a, access));
  SHARD_TRY(const StorePtr to, OpenStore(b, access));
  SHARD_TRY(const OpenedManifest before, OpenManifest(*from, a));
  SHARD_TRY(const OpenedManifest after, OpenManifest(*to, b));
  SetDiff diff;
  std::vector<Change>& changes = diff.report.changes;
  CompareNotes(before.oci.annotations, after.oci.annotations, changes);
  CompareByName(before.oci, after.oci, changes);
  if (changes.empty() && before.digest != after.digest)
    changes.push_back({"manifest", "digest", before.digest, after.digest});
  CountLayers(before.oci, after.oci, diff);
  const std::string set_id = AnnotationOf(before.oci.annotations, kSetIdKey);
  diff.same_base = !set_id.empty() && set_id == AnnotationOf(after.oci.annotations, kSetIdKey);
  SHARD_CHECK(CompareNodes(to->NameOf({"", after.digest}), before.oci, after.oci, group, diff));
  return diff;
}

}  // namespace moepack::registry
