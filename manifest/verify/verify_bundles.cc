// Rules about what the bundles hold. They need only the manifest.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "libshard/base/text.h"
#include "manifest/verify/verify_rules.h"

namespace moepack::manifest {

ExpertIds PartExperts(const Plan& plan, Role role, int group, uint32_t layer) {
  if (role == Role::kOverlay) return IdsOf(plan.overlay, layer);
  if (role == Role::kRemainder) return IdsOf(plan.remainder, layer);
  if (role != Role::kGroup || group < 0 || static_cast<size_t>(group) >= plan.groups.size()) {
    return {};
  }
  const GroupPlan& own = plan.groups[static_cast<size_t>(group)];
  return Union(IdsOf(own.owned, layer), IdsOf(own.fill, layer));
}

std::string LayerText(std::optional<uint32_t> layer) {
  return layer ? Cat("layer ", *layer) : "layer none";
}

std::string PartText(Role role, int group) {
  return role == Role::kGroup ? Cat("group ", group) : std::string(RoleName(role));
}

namespace {

using PartKey = std::pair<Role, int>;

bool HoldsAny(const Plan& plan, const PartKey& part) {
  return std::any_of(plan.layers.begin(), plan.layers.end(), [&](const auto& layer) {
    return !PartExperts(plan, part.first, part.second, layer.first).empty();
  });
}

// Returns the parts of a complete distribution. A remainder is written only on request.
std::vector<PartKey> ExpectedParts(const Plan& plan, bool gguf) {
  std::vector<PartKey> parts = {{Role::kTrunk, -1}};
  if (gguf) parts = {{Role::kHead, -1}, {Role::kTrunk, -1}, {Role::kRouters, -1}};
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    const PartKey part = {Role::kGroup, static_cast<int>(group)};
    if (HoldsAny(plan, part)) parts.push_back(part);
  }
  if (HoldsAny(plan, {Role::kOverlay, -1})) parts.push_back({Role::kOverlay, -1});
  return parts;
}

void CheckComplete(const Manifest& manifest, RuleFindings& findings) {
  std::set<PartKey> present;
  for (const BundleRecord& bundle : manifest.bundles) present.insert({bundle.role, bundle.group});
  std::vector<std::string> absent;
  for (const PartKey& part : ExpectedParts(manifest.plan, manifest.is_gguf())) {
    if (!present.contains(part)) absent.push_back(PartText(part.first, part.second));
  }
  if (absent.empty()) return;
  if (!manifest.complete) {
    findings.Note(Cat("a part of a distribution; absent: ", moepack::Join(absent, ", ")));
    return;
  }
  findings.Error(
      Cat("parts: expected a file for each, found none for ", moepack::Join(absent, ", ")));
}

void CheckTensorIds(const Manifest& manifest, RuleFindings& findings) {
  const LayerCounts& layers = manifest.plan.layers;
  for (const BundleRecord& bundle : manifest.bundles) {
    for (const TensorRecord& tensor : bundle.tensors) {
      if (tensor.expert_ids.empty()) continue;
      const auto layer = tensor.layer ? layers.find(*tensor.layer) : layers.end();
      if (layer == layers.end()) {
        findings.Error(Cat("layer: expected a layer with experts, found ",
                           tensor.layer ? Cat(*tensor.layer) : "none"),
                       bundle.file, tensor.name);
      } else if (tensor.expert_ids.back() >= layer->second) {
        findings.Error(Cat("expert ids: expected less than ", layer->second, ", found ",
                           tensor.expert_ids.back()),
                       bundle.file, tensor.name);
      }
    }
  }
}

// Checks that the trunk has no experts. The converse does not hold: files of experts may have
// tensors without ids, such as one scale for all experts of a layer.
void CheckTrunk(const Manifest& manifest, RuleFindings& findings) {
  for (const BundleRecord& bundle : manifest.bundles) {
    const bool trunk = bundle.role == Role::kTrunk;
    for (const TensorRecord& tensor : bundle.tensors) {
      if (trunk && !tensor.expert_ids.empty()) {
        findings.Error(
            Cat("experts: expected none in the trunk, found ", FormatIds(tensor.expert_ids)),
            bundle.file, tensor.name);
      } else if (!trunk && !tensor.layer) {
        findings.Error(Cat("layer: expected one in ", RoleName(bundle.role), " files, found none"),
                       bundle.file, tensor.name);
      }
    }
  }
}

// Replaces the numbers in a name, so that it is the same for all experts of a layer:
// "model.layers.3.mlp.experts.5.up_proj.weight" gives
// "model.layers.*.mlp.experts.*.up_proj.weight".
std::string NameShape(const std::string& name) {
  std::vector<std::string> parts = moepack::Split(name, '.');
  for (std::string& part : parts) {
    if (ParseUint(part)) part.assign(1, '*');
  }
  return moepack::Join(parts, ".");
}

// What the tensors of the bundles hold: for each part, layer and expert, how often each shape of
// name occurs, and for each layer all shapes that occur.
struct Holdings {
  using Shapes = std::map<std::string, uint32_t>;
  std::map<std::tuple<PartKey, uint32_t, uint32_t>, Shapes> experts;
  std::map<std::pair<PartKey, uint32_t>, ExpertIds> ids;  // ascending, built from the map above
  std::map<uint32_t, std::set<std::string>> shapes;
  std::set<PartKey> parts;
};

Holdings CollectHoldings(const Manifest& manifest) {
  Holdings out;
  for (const BundleRecord& bundle : manifest.bundles) {
    if (bundle.role < Role::kGroup) continue;
    const PartKey part = {bundle.role, bundle.group};
    out.parts.insert(part);
    for (const TensorRecord& tensor : bundle.tensors) {
      if (!tensor.layer || tensor.expert_ids.empty()) continue;
      const uint32_t layer = *tensor.layer;
      const std::string shape = NameShape(tensor.name);
      out.shapes[layer].insert(shape);
      for (uint32_t id : tensor.expert_ids) ++out.experts[{part, layer, id}][shape];
    }
  }
  for (const auto& [key, shapes] : out.experts) {
    out.ids[{std::get<0>(key), std::get<1>(key)}].push_back(std::get<2>(key));
  }
  return out;
}

void CheckHeldIds(const Manifest& manifest, const Holdings& holdings, RuleFindings& findings) {
  for (const PartKey& part : holdings.parts) {
    for (const auto& [layer, count] : manifest.plan.layers) {
      const auto held = holdings.ids.find({part, layer});
      const ExpertIds found = held == holdings.ids.end() ? ExpertIds() : held->second;
      const ExpertIds expected = PartExperts(manifest.plan, part.first, part.second, layer);
      if (found == expected) continue;
      findings.Error(Cat(PartText(part.first, part.second), ", layer ", layer,
                         ": experts: expected \"", FormatIds(expected), "\", found \"",
                         FormatIds(found), "\""));
    }
  }
}

void CheckHeldTensors(const Holdings& holdings, RuleFindings& findings) {
  for (const auto& [key, shapes] : holdings.experts) {
    const auto& [part, layer, expert] = key;
    for (const std::string& shape : holdings.shapes.at(layer)) {
      const auto found = shapes.find(shape);
      const uint32_t count = found == shapes.end() ? 0 : found->second;
      if (count == 1) continue;
      findings.Error(Cat(PartText(part.first, part.second), ", layer ", layer, ", expert ", expert,
                         ": tensor ", Quoted(shape), ": expected once, found ", count, " times"));
    }
  }
}

void CheckHoldings(const Manifest& manifest, RuleFindings& findings) {
  const Holdings holdings = CollectHoldings(manifest);
  CheckHeldIds(manifest, holdings, findings);
  CheckHeldTensors(holdings, findings);
}

constexpr std::array kBundleRules = {
    StructureRule{"part-files-complete", CheckComplete},
    StructureRule{"expert-ids-in-range", CheckTensorIds},
    StructureRule{"trunk-has-no-experts", CheckTrunk},
    StructureRule{"bundle-holds-its-experts", CheckHoldings},
};

}  // namespace

std::span<const StructureRule> BundleRules() { return kBundleRules; }

}  // namespace moepack::manifest
