// Rules about what the bundles hold. They need only the manifest.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "libshard/model/family_match.h"
#include "libshard/model/layer_experts.h"
#include "manifest/verify/verify_rules.h"

namespace moepack::manifest {

std::string LayerText(std::optional<uint32_t> layer) {
  return layer ? Cat("layer ", *layer) : "layer none";
}

namespace {

void CheckComplete(const Manifest& manifest, RuleFindings& findings) {
  if (manifest.without_assets && (manifest.complete || !manifest.assets.empty())) {
    findings.Error(Cat(
        "without_assets: expected true only in an incomplete distribution without "
        "assets, found it in one that ",
        manifest.complete ? "is complete" : Cat("has ", Plural(manifest.assets.size(), "asset"))));
  }
  std::vector<std::string> absent;
  for (const PartKey& part : AbsentParts(manifest)) {
    absent.push_back(PartText(part));
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
        findings.Error(Cat("experts: expected numbers below ", layer->second, ", found ",
                           tensor.expert_ids.back()),
                       bundle.file, tensor.name);
      }
    }
  }
}

// Checks that the trunk has no experts. The converse is not checked: files of experts may have
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

// The shape of a name as module and leaf. A name without a known leaf is all module.
struct ShapeParts {
  std::string_view module, leaf;
};

ShapeParts PartsOf(std::string_view shape) {
  const size_t dot = shape.rfind('.');
  const bool known = dot != shape.npos && FindLeaf(shape.substr(dot + 1)) != nullptr;
  if (!known) return {shape, {}};
  return {shape.substr(0, dot), shape.substr(dot + 1)};
}

// How an expert stores a module: the leaf of its values, and whether they are plain numbers.
using Form = std::pair<std::string_view, bool>;

// What the tensors of the bundles hold: for each part, layer and expert, how often each shape of
// name occurs, and for each layer, module and form all shapes that occur. Borrows its own texts.
struct Holdings {
  struct Held {
    uint32_t count = 0;
    bool plain = false;
  };
  using Shapes = std::map<std::string, Held>;
  using Forms = std::map<Form, std::set<std::string_view>>;
  std::map<std::tuple<PartKey, uint32_t, uint32_t>, Shapes> experts;
  std::map<std::pair<PartKey, uint32_t>, ExpertIds> ids;  // ascending, built from the map above
  std::map<uint32_t, std::map<std::string_view, Forms>> modules;  // built from it, too
  std::set<PartKey> parts;
};

std::map<std::string_view, Form> FormsOf(const Holdings::Shapes& shapes) {
  std::map<std::string_view, Form> forms;
  for (const auto& [shape, held] : shapes) {
    const auto [module, leaf] = PartsOf(shape);
    if (HoldsValues(leaf)) forms.emplace(module, Form{leaf, held.plain});
  }
  return forms;
}

// Router rows of a refitted group have the name of the trunk's router. The rule refit-derived
// checks them.
TextSet<std::string_view> NamesInTrunk(const Manifest& manifest) {
  TextSet<std::string_view> names;
  for (const BundleRecord& bundle : manifest.bundles) {
    if (bundle.role != Role::kTrunk || !manifest.refit) continue;
    for (const TensorRecord& tensor : bundle.tensors) names.insert(tensor.name);
  }
  return names;
}

Holdings CollectHoldings(const Manifest& manifest) {
  Holdings out;
  const TextSet<std::string_view> trunk = NamesInTrunk(manifest);
  for (const BundleRecord& bundle : manifest.bundles) {
    if (bundle.role < Role::kGroup) continue;
    const PartKey part = PartOf(bundle);
    out.parts.insert(part);
    for (const TensorRecord& tensor : bundle.tensors) {
      if (!tensor.layer || tensor.expert_ids.empty() || trunk.contains(tensor.name)) continue;
      const uint32_t layer = *tensor.layer;
      const std::string shape = NameShape(tensor.name);
      for (uint32_t id : tensor.expert_ids) {
        Holdings::Held& held = out.experts[{part, layer, id}][shape];
        ++held.count;
        held.plain = IsPlainType(tensor.dtype);
      }
    }
  }
  for (const auto& [key, shapes] : out.experts) {
    const auto& [part, layer, expert] = key;
    out.ids[{part, layer}].push_back(expert);
    const std::map<std::string_view, Form> forms = FormsOf(shapes);
    for (const auto& [shape, held] : shapes) {
      const std::string_view module = PartsOf(shape).module;
      const auto form = forms.find(module);
      out.modules[layer][module][form == forms.end() ? Form() : form->second].insert(shape);
    }
  }
  return out;
}

void CheckHeldIds(const Manifest& manifest, const Holdings& holdings, RuleFindings& findings) {
  for (const PartKey& part : holdings.parts) {
    for (const auto& [layer, count] : manifest.plan.layers) {
      const auto held = holdings.ids.find({part, layer});
      const ExpertIds found = held == holdings.ids.end() ? ExpertIds() : held->second;
      const ExpertIds expected = PartExperts(manifest.plan, part, layer);
      if (found == expected) continue;
      findings.Error(Cat(PartText(part), ", layer ", layer, ": experts: expected \"",
                         FormatIds(expected), "\", found \"", FormatIds(found), "\""));
    }
  }
}

// Scales of activations exist only for experts that calibration reached.
bool MayBeMissing(std::string_view shape) {
  return !AffectsNumbers(shape.substr(shape.rfind('.') + 1));
}

void CheckHeldTensors(const Holdings& holdings, RuleFindings& findings) {
  for (const auto& [key, shapes] : holdings.experts) {
    const auto& [part, layer, expert] = key;
    const std::map<std::string_view, Form> forms = FormsOf(shapes);
    for (const auto& [module, wanted] : holdings.modules.at(layer)) {
      // An expert that lacks the values, or the whole module, should have what another has.
      const auto own = forms.find(module);
      const auto& form = own == forms.end() ? *wanted.rbegin() : *wanted.find(own->second);
      for (const std::string_view shape : form.second) {
        const auto found = shapes.find(std::string(shape));
        const uint32_t count = found == shapes.end() ? 0 : found->second.count;
        if (count == 1 || (count == 0 && MayBeMissing(shape))) continue;
        findings.Error(Cat(PartText(part), ", layer ", layer, ", expert ", expert, ": tensor ",
                           Quoted(shape), ": expected once, found ", Plural(count, "time")));
      }
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
