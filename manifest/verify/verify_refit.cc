// What a manifest says about derived tensors: that they are where a refit may put them, and that
// they match its record.
#include <algorithm>
#include <map>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/refit/node_top_k.h"
#include "manifest/verify/verify_rules.h"

namespace moepack::manifest {

namespace {

constexpr const char* kRefitRule = "refit-derived";

using LayerAndGroup = std::pair<uint32_t, uint32_t>;

std::set<std::string_view> TrunkNames(const Manifest& manifest) {
  std::set<std::string_view> names;
  for (const BundleRecord& bundle : manifest.bundles) {
    if (bundle.role != Role::kTrunk) continue;
    for (const TensorRecord& tensor : bundle.tensors) names.insert(tensor.name);
  }
  return names;
}

class RefitCheck {
 public:
  RefitCheck(const Manifest& manifest, Findings& findings)
      : manifest_(manifest), findings_(kRefitRule, findings) {}

  void Run() {
    // First, since a report shows only some of a rule's findings.
    if (manifest_.refit) CheckGroups();
    const std::set<std::string_view> trunk = TrunkNames(manifest_);
    for (const BundleRecord& bundle : manifest_.bundles) {
      const bool part = bundle.role != Role::kTrunk;
      for (const TensorRecord& tensor : bundle.tensors) {
        if (!tensor.derived.empty()) {
          CheckTensor(bundle, tensor);
        } else if (part && trunk.contains(tensor.name)) {
          // A router row that the trunk has too is a copy for a refit; without one it has no reason
          // to be there.
          findings_.Error(
              "derived: expected some experts, as the trunk has the tensor too, found none",
              bundle.file, tensor.name);
        }
      }
    }
    if (manifest_.refit) {
      CheckOutcomes();
      CheckTopK();
    }
    if (tensors_ == 0) return;
    findings_.Note(Cat(Plural(tensors_, "tensor"), " of groups, ", FormatCount(bytes_),
                       " bytes, were made by a refit; all others have the source's values"));
  }

 private:
  void CheckTensor(const BundleRecord& bundle, const TensorRecord& tensor) {
    ++tensors_;
    bytes_ += tensor.bytes;
    const auto wrong = [&](const std::string& expected) {
      findings_.Error(Cat("derived: expected ", expected, ", found experts ",
                          Quoted(FormatIds(tensor.derived.ids()))),
                      bundle.file, tensor.name);
    };
    if (!manifest_.refit) return wrong("none without \"refit\" in the manifest");
    if (bundle.role != Role::kGroup || !tensor.layer)
      return wrong(Cat("none in ", RoleName(bundle.role), " files"));
    const RefitOutcome* outcome = manifest_.refit->Find(*tensor.layer, *bundle.group);
    const ExpertIds accepted = outcome == nullptr ? ExpertIds() : outcome->expert_ids;
    if (!Difference(tensor.derived.ids(), accepted).empty())
      return wrong(Cat("some of ", Quoted(FormatIds(accepted)), ", which \"refit\" has of layer ",
                       *tensor.layer, " and group ", *bundle.group));
    ExpertIds& seen = seen_[{*tensor.layer, *bundle.group}];
    seen = Union(seen, tensor.derived.ids());
  }

  // Every group that has files must have been refitted: the record of a part of a refit lacks the
  // others.
  void CheckGroups() {
    std::set<uint32_t> layers;
    for (const BundleRecord& bundle : manifest_.bundles)
      if (bundle.role == Role::kGroup) groups_.insert(*bundle.group);
    for (const RefitOutcome& outcome : manifest_.refit->outcomes) layers.insert(outcome.layer);
    for (const uint32_t group : groups_) CheckRefitted(group, layers);
  }

  void CheckRefitted(uint32_t group, const std::set<uint32_t>& layers) {
    for (const uint32_t layer : layers) {
      if (manifest_.refit->Find(layer, group) != nullptr) continue;
      return findings_.Error(Cat("group ", group, ", layer ", layer,
                                 ": expected what the refit made of it, found none"));
    }
  }

  // Every accepted layer must be in the files of its group, if these exist.
  void CheckOutcomes() {
    for (const RefitOutcome& outcome : manifest_.refit->outcomes) {
      if (!groups_.contains(outcome.group) || !manifest_.plan.layers.contains(outcome.layer))
        continue;
      const ExpertIds& seen = seen_[{outcome.layer, outcome.group}];
      if (seen == outcome.expert_ids) continue;
      findings_.Error(Cat("group ", outcome.group, ", layer ", outcome.layer,
                          ": derived experts: expected \"", FormatIds(outcome.expert_ids),
                          "\", found \"", FormatIds(seen), "\""));
    }
  }

  // A node cannot use more experts than it has.
  void CheckTopK() {
    const auto top_k = NodeTopK("distribution.json", *manifest_.refit);
    if (!top_k) return findings_.Error(top_k.error().message);
    for (size_t group = 0; group < manifest_.plan.groups.size(); ++group) {
      for (const auto& [layer, count] : manifest_.plan.layers) {
        const size_t eligible = Eligible(manifest_.plan, group, layer).size();
        if (*top_k <= eligible) continue;
        return findings_.Error(Cat("refit: parameters: ", kNodeTopK, ": expected at most ",
                                   eligible, ", the experts of group ", group, " in layer ", layer,
                                   ", found ", *top_k));
      }
    }
  }

  const Manifest& manifest_;
  RuleFindings findings_;
  std::set<uint32_t> groups_;  // that have files
  std::map<LayerAndGroup, ExpertIds> seen_;
  uint64_t tensors_ = 0, bytes_ = 0;
};

bool HasDerived(const Manifest& manifest) {
  return std::any_of(manifest.bundles.begin(), manifest.bundles.end(), [](const auto& bundle) {
    return std::any_of(bundle.tensors.begin(), bundle.tensors.end(),
                       [](const TensorRecord& tensor) { return !tensor.derived.empty(); });
  });
}

}  // namespace

void CheckRefit(const Manifest& manifest, VerifyReport& report) {
  if (!manifest.refit && !HasDerived(manifest)) return;
  report.rules.push_back(kRefitRule);
  RefitCheck(manifest, report.findings).Run();
}

}  // namespace moepack::manifest
