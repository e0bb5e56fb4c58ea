#include "manifest/document/diff.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "manifest/document/diff_steps.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/unknown_fields.h"

namespace moepack::manifest {

namespace {

// What a source says of its own calibration; "" for none.
std::string KeysText(const std::optional<CalibrationKeys>& keys) {
  if (!keys) return "";
  return Cat("on ", Plural(keys->tokens, "token"), ", ", keys->method, ", version ", keys->version);
}

void CompareModels(const Manifest& a, const Manifest& b, Changes& changes) {
  if (a.versions.model != b.versions.model) {
    changes.push_back({"model", "version", a.versions.model, b.versions.model});
  }
  CompareFields("model", ModelToJson(a.model), ModelToJson(b.model), {"source", "calibrated"},
                changes);
  const std::string before = KeysText(a.model.calibrated), after = KeysText(b.model.calibrated);
  if (before != after) changes.push_back({"model", "calibrated", before, after});
  std::map<std::string, std::pair<std::string, std::string>> sources;
  for (const SourceRecord& source : a.model.source)
    sources[source.file].first = source.header_sha256;
  for (const SourceRecord& source : b.model.source) {
    sources[source.file].second = source.header_sha256;
  }
  for (const auto& [file, headers] : sources) {
    if (headers.first == headers.second) continue;
    changes.push_back({"model", Cat("source ", file), headers.first, headers.second});
  }
}

using Owner = std::optional<uint32_t>;  // a group; no value: the remainder

std::string PlaceText(Owner group) { return group ? Cat("group ", *group) : "remainder"; }

// Returns the owner of each expert of a layer.
std::map<uint32_t, Owner> Owners(const Plan& plan, uint32_t layer) {
  std::map<uint32_t, Owner> owners;
  for (uint32_t id : IdsOf(plan.remainder, layer)) owners[id] = std::nullopt;
  for (uint32_t group = 0; group < plan.groups.size(); ++group) {
    for (uint32_t id : IdsOf(plan.groups[group].owned, layer)) owners[id] = group;
  }
  return owners;
}

std::set<uint32_t> LayersOf(const Manifest& a, const Manifest& b) {
  std::set<uint32_t> layers;
  for (const auto& [layer, expert_count] : a.plan.layers) layers.insert(layer);
  for (const auto& [layer, expert_count] : b.plan.layers) layers.insert(layer);
  return layers;
}

// Notes experts that moved, as one change per pair of owners.
void CompareOwners(const Manifest& a, const Manifest& b, Changes& changes) {
  LayerChanges moves;
  for (uint32_t layer : LayersOf(a, b)) {
    const std::map<uint32_t, Owner> before = Owners(a.plan, layer), after = Owners(b.plan, layer);
    std::map<std::pair<Owner, Owner>, ExpertIds> moved;
    for (const auto& [id, group] : before) {
      const auto now = after.find(id);
      if (now != after.end() && now->second != group) moved[{group, now->second}].push_back(id);
    }
    for (const auto& [places, ids] : moved) {
      moves.Add(layer, {"partition", Cat("experts ", FormatIds(ids)), PlaceText(places.first),
                        PlaceText(places.second)});
    }
  }
  moves.MoveTo(changes);
}

void CompareFill(const Manifest& a, const Manifest& b, Changes& changes) {
  static const LayerExperts none;
  LayerChanges fills;
  for (uint32_t layer : LayersOf(a, b)) {
    for (size_t group = 0; group < std::max(a.plan.groups.size(), b.plan.groups.size()); ++group) {
      const auto fill = [&](const Plan& plan) {
        const bool known = group < plan.groups.size();
        return FormatIds(IdsOf(known ? plan.groups[group].fill : none, layer));
      };
      if (fill(a.plan) == fill(b.plan)) continue;
      fills.Add(layer, {"partition", Cat("fill of group ", group), fill(a.plan), fill(b.plan)});
    }
  }
  fills.MoveTo(changes);
}

void ComparePartitions(const Manifest& a, const Manifest& b, Changes& changes) {
  const auto compare = [&](const char* name, const std::string& before, const std::string& after) {
    if (before != after) changes.push_back({"partition", name, before, after});
  };
  compare("version", a.versions.shard, b.versions.shard);
  compare("scheme", a.plan.scheme, b.plan.scheme);
  compare("groups", Cat(a.plan.groups.size()), Cat(b.plan.groups.size()));
  compare("uniform", a.plan.uniform ? "true" : "false", b.plan.uniform ? "true" : "false");
  CompareOwners(a, b, changes);
  CompareFill(a, b, changes);
}

// Returns the overlay's experts of a layer, or its fill for one group.
ExpertIds OverlayIds(const OverlayPlan* overlay, std::optional<size_t> group, uint32_t layer) {
  if (overlay == nullptr) return {};
  return IdsOf(group ? FillOf(*overlay, *group) : overlay->experts_by_layer, layer);
}

// " -7", or " -(8-9)": ranges have a dash of their own.
std::string SignedIds(const char* sign, const ExpertIds& ids) {
  if (ids.empty()) return "";
  const std::string text = FormatIds(ids);
  return text.find_first_of("-,") == text.npos ? Cat(sign, text) : Cat(sign, "(", text, ")");
}

// Compares the current overlays, of which nodes have one. "experts +8 -7": 8 was added and 7
// removed.
void CompareCurrentOverlays(const Manifest& a, const Manifest& b, Changes& changes) {
  const OverlayPlan *old_one = a.plan.current_overlay(), *new_one = b.plan.current_overlay();
  LayerChanges overlays;
  const size_t groups = std::max(a.plan.groups.size(), b.plan.groups.size());
  for (uint32_t layer : LayersOf(a, b)) {
    const auto compare = [&](const std::string& name, std::optional<size_t> group) {
      const ExpertIds before = OverlayIds(old_one, group, layer);
      const ExpertIds after = OverlayIds(new_one, group, layer);
      if (before == after) return;
      const std::string moved = Cat(SignedIds(" +", moepack::Difference(after, before)),
                                    SignedIds(" -", moepack::Difference(before, after)));
      overlays.Add(layer, {"overlay", Cat(name, moved), FormatIds(before), FormatIds(after)});
    };
    compare("experts", std::nullopt);
    for (size_t group = 0; group < groups; ++group) compare(Cat("fill of group ", group), group);
  }
  overlays.MoveTo(changes);
}

void CompareOverlays(const Manifest& a, const Manifest& b, Changes& changes) {
  const auto current = [](const Manifest& manifest) {
    const OverlayPlan* overlay = manifest.plan.current_overlay();
    return overlay == nullptr ? std::string() : overlay->version;
  };
  const auto versions = [](const Manifest& manifest) {
    std::vector<std::string> all;
    for (const OverlayPlan& overlay : manifest.plan.overlays) all.push_back(overlay.version);
    return moepack::Join(all, ", ");
  };
  const auto compare = [&](const char* name, const std::string& before, const std::string& after) {
    if (before != after) changes.push_back({"overlay", name, before, after});
  };
  compare("version", current(a), current(b));
  if (std::max(a.plan.overlays.size(), b.plan.overlays.size()) > 1)
    compare("versions", versions(a), versions(b));
  CompareCurrentOverlays(a, b, changes);
}

std::string TensorText(const TensorRecord& tensor) {
  const std::string derived =
      tensor.derived.empty() ? "" : Cat(", experts ", FormatIds(tensor.derived.ids()), " refitted");
  return Cat(tensor.dtype, " ", FormatShape(tensor.shape), ", xxh3 ", tensor.xxh3, derived);
}

// Compares tensors. One that only moved within the file has not changed.
void CompareTensors(const BundleRecord& a, const BundleRecord& b, Changes& changes) {
  TextMap<std::string_view, const TensorRecord*> before;
  for (const TensorRecord& tensor : a.tensors) before[tensor.name] = &tensor;
  for (const TensorRecord& tensor : b.tensors) {
    const auto found = before.find(tensor.name);
    const std::string old = found == before.end() ? "" : TensorText(*found->second);
    if (found != before.end()) before.erase(found);
    const std::string now = TensorText(tensor);
    if (old != now) changes.push_back({"tensor", Cat(b.file, ": ", tensor.name), old, now});
  }
  for (const TensorRecord& tensor : a.tensors) {
    if (!before.contains(tensor.name)) continue;
    changes.push_back({"tensor", Cat(a.file, ": ", tensor.name), TensorText(tensor), ""});
  }
}

void CompareAllTensors(const Manifest& a, const Manifest& b, Changes& changes) {
  TextMap<std::string_view, const BundleRecord*> before;
  for (const BundleRecord& bundle : a.bundles) before[bundle.file] = &bundle;
  for (const BundleRecord& bundle : b.bundles) {
    const auto found = before.find(bundle.file);
    if (found != before.end()) CompareTensors(*found->second, bundle, changes);
  }
}

// What every layer and group got is covered by the version and the tensors.
Json RefitSummary(const Manifest& manifest) {
  if (!manifest.refit) return Json::object();
  Json out = RefitToJson(*manifest.refit);
  for (const char* key : {"format", "format_version", "model", "plan", "layers"}) out.erase(key);
  out["version"] = manifest.versions.refit;
  return out;
}

std::string TextsOf(const CalibratedRecord& record) {
  std::vector<std::string> texts;
  for (const CalibrationText& text : record.calibration) {
    texts.push_back(Cat(text.name, text.bucket.empty() ? "" : Cat(" (", text.bucket, ")"),
                        ", sha256 ", text.sha256.substr(0, 16)));
  }
  return moepack::Join(texts, "; ");
}

// A field for each thing that may differ. What became of every layer is covered by the tensors.
Json CalibratedFields(const Manifest& manifest) {
  Json out = Json::object();
  if (!manifest.calibrated) return out;
  const CalibratedRecord& record = *manifest.calibrated;
  const CalibratedFigures sum = record.sum();
  out["matrices"] =
      Cat(FormatCount(sum.accepted), " of ", FormatCount(sum.matrices), " with feedback");
  out["tokens"] = FormatCount(record.tokens());
  out["texts"] = TextsOf(record);
  for (const auto& [name, value] : record.parameters) out[name] = value;
  return out;
}

// The routing rules, with digests instead of the tables, each of which is one long text.
Json RoutingWithDigests(const Manifest& manifest) {
  Json routing = RoutingToJson(manifest);
  if (!manifest.plan.placement) return routing;
  const auto shorten = [&](const char* section, const char* key) {
    if (!routing["placement"].contains(section)) return;
    Json& text = routing["placement"][section][key];
    text = "xxh3 " + Xxh3Hex(std::as_bytes(std::span(text.get_ref<const std::string&>())));
  };
  shorten("tokens", "ids");
  shorten("tokens", "scores");
  shorten("centroids", "values");
  return routing;
}

// Returns what has no comparison of its own: sections that are kept without being used, `complete`,
// and fields of newer versions.
Json OtherSections(const Manifest& manifest) {
  Json out = manifest.original ? *manifest.original : Json::object();
  const Json head = HeadToJson(manifest);
  for (const auto& [key, value] : head.items()) out[key] = value;
  for (const char* section :
       {"format", "format_version", "model", "versions", "partition", "overlays", "routing",
        "refit", "calibrated", "bundles", "assets", "tool"}) {
    out.erase(section);
  }
  return out;
}

// Compares how the bytes were made. The command line and the time of writing do not matter here.
void CompareTools(const Manifest& a, const Manifest& b, Changes& changes) {
  const auto tool = [](const Manifest& manifest) {
    Json out = TailToJson(manifest)["tool"];
    if (manifest.original && manifest.original->contains("tool")) {
      KeepUnknown((*manifest.original)["tool"], out);
    }
    return out;
  };
  CompareFields("tool", tool(a), tool(b), {"command", "created"}, changes);
}

}  // namespace

DiffReport DiffManifests(const Manifest& a, const Manifest& b) {
  DiffReport report;
  CompareModels(a, b, report.changes);
  ComparePartitions(a, b, report.changes);
  CompareOverlays(a, b, report.changes);
  CompareFields("routing", RoutingWithDigests(a), RoutingWithDigests(b), {}, report.changes);
  CompareFields("refit", RefitSummary(a), RefitSummary(b), {}, report.changes);
  CompareFields("calibrated", CalibratedFields(a), CalibratedFields(b), {}, report.changes);
  CompareFiles("bundle", a.bundles, b.bundles, report.changes);
  CompareAllTensors(a, b, report.changes);
  CompareFiles("asset", a.assets, b.assets, report.changes);
  CompareTools(a, b, report.changes);
  CompareFields("other", OtherSections(a), OtherSections(b), {}, report.changes);
  TextSet<std::string_view> digests;
  for (const BundleRecord& bundle : a.bundles) digests.insert(bundle.sha256);
  for (const BundleRecord& bundle : b.bundles) {
    (digests.contains(bundle.sha256) ? report.same_bytes : report.changed_bytes) += bundle.size;
  }
  return report;
}

}  // namespace moepack::manifest
