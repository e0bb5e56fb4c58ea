// Rules about which part holds which expert. CheckPlan stops at the first broken rule, but a
// verifier has to name all of them.
#include <array>

#include "libshard/base/text.h"
#include "manifest/verify/verify_rules.h"

namespace moepack::manifest {

namespace {

// Counts, for each expert of a layer, the groups (and the remainder) that own it.
std::vector<uint32_t> HolderCounts(const Plan& plan, uint32_t layer, uint32_t expert_count) {
  std::vector<uint32_t> holders(expert_count);
  const auto count = [&](const ExpertIds& ids) {
    for (uint32_t id : ids) {
      if (id < expert_count) ++holders[id];
    }
  };
  for (const GroupPlan& group : plan.groups) count(IdsOf(group.owned, layer));
  count(IdsOf(plan.remainder, layer));
  return holders;
}

ExpertIds IdsWhere(const std::vector<uint32_t>& holders, bool (*wanted)(uint32_t)) {
  ExpertIds ids;
  for (uint32_t id = 0; id < holders.size(); ++id) {
    if (wanted(holders[id])) ids.push_back(id);
  }
  return ids;
}

void CheckAccounted(const Manifest& manifest, RuleFindings& findings) {
  for (const auto& [layer, experts] : manifest.plan.layers) {
    const ExpertIds lost = IdsWhere(HolderCounts(manifest.plan, layer, experts),
                                    [](uint32_t count) { return count == 0; });
    if (lost.empty()) continue;
    findings.Error(Cat("layer ", layer, ": expected every expert in a group or the remainder, ",
                       "found ", FormatIds(lost), " in none"));
  }
}

void CheckNoDuplicates(const Manifest& manifest, RuleFindings& findings) {
  for (const auto& [layer, experts] : manifest.plan.layers) {
    const ExpertIds twice = IdsWhere(HolderCounts(manifest.plan, layer, experts),
                                     [](uint32_t count) { return count > 1; });
    if (twice.empty()) continue;
    findings.Error(Cat("layer ", layer, ": expected every expert in one group or the remainder, ",
                       "found ", FormatIds(twice), " in several"));
  }
}

void CheckFill(const Manifest& manifest, RuleFindings& findings) {
  const Plan& plan = manifest.plan;
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    for (const auto& [layer, fill] : plan.groups[group].fill) {
      const ExpertIds held =
          Union(IdsOf(plan.groups[group].owned, layer), IdsOf(plan.remainder, layer));
      const ExpertIds wrong = moepack::Difference(fill, moepack::Difference(fill, held));
      if (wrong.empty()) continue;
      findings.Error(Cat("group ", group, ", layer ", layer,
                         ": fill: expected experts of other groups, found ", FormatIds(wrong)));
    }
  }
}

void CheckOverlay(const Manifest& manifest, RuleFindings& findings) {
  const bool ids = CountIds(manifest.plan.overlay) != 0;
  const bool version = !manifest.plan.overlay_version.empty();
  if (ids != version) {
    findings.Error(Cat("overlay: expected a version and expert ids, or neither, found ",
                       ids ? "ids without a version" : "a version without ids"));
  }
  for (const BundleRecord& bundle : manifest.bundles) {
    if (bundle.role != Role::kOverlay) continue;
    const std::string directory = Cat("overlays/", manifest.plan.overlay_version, "/");
    if (version && bundle.file.starts_with(directory)) continue;
    findings.Error(
        Cat("overlay: expected a file below ", Quoted(directory), ", found ", Quoted(bundle.file)),
        bundle.file);
  }
}

void CheckEligible(const Manifest& manifest, RuleFindings& findings) {
  for (const auto& [layer, top_k] : manifest.plan.top_k) {
    for (size_t group = 0; group < manifest.plan.groups.size(); ++group) {
      const size_t eligible = Eligible(manifest.plan, group, layer).size();
      if (eligible >= top_k) continue;
      findings.Error(Cat("group ", group, ", layer ", layer,
                         ": eligible experts: expected at least ", top_k, " (top-k), found ",
                         eligible));
    }
  }
}

void CheckUniform(const Manifest& manifest, RuleFindings& findings) {
  const Plan& plan = manifest.plan;
  if (!plan.uniform || plan.groups.empty() || plan.layers.empty()) return;
  const size_t expected = Eligible(plan, 0, plan.layers.begin()->first).size();
  for (const auto& [layer, experts] : plan.layers) {
    for (size_t group = 0; group < plan.groups.size(); ++group) {
      const size_t found = Eligible(plan, group, layer).size();
      if (found == expected) continue;
      findings.Error(Cat("group ", group, ", layer ", layer, ": eligible experts: expected ",
                         expected, " as in every group and layer, found ", found));
    }
  }
}

void CheckVersions(const Manifest& manifest, RuleFindings& findings) {
  const Versions expected = ComputeVersions(manifest.versions.model, manifest.plan);
  if (manifest.versions.shard != expected.shard) {
    findings.Error(Cat("shard version: expected ", expected.shard, ", found ",
                       Quoted(manifest.versions.shard)));
  }
  if (manifest.versions.replica != expected.replica) {
    findings.Error(Cat("replica version: expected ", Quoted(expected.replica), ", found ",
                       Quoted(manifest.versions.replica)));
  }
}

constexpr std::array kPlanRules = {
    StructureRule{"expert-accounted", CheckAccounted},
    StructureRule{"no-duplicate-experts", CheckNoDuplicates},
    StructureRule{"fill-not-owned", CheckFill},
    StructureRule{"overlay-consistent", CheckOverlay},
    StructureRule{"eligible-at-least-top-k", CheckEligible},
    StructureRule{"uniform", CheckUniform},
    StructureRule{"versions", CheckVersions},
};

}  // namespace

std::span<const StructureRule> PlanRules() { return kPlanRules; }

}  // namespace moepack::manifest
