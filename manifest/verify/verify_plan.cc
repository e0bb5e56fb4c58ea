// Rules about which part holds which expert. CheckPlan stops at the first broken rule, but a
// verifier has to name all of them.
#include <array>
#include <set>

#include "libshard/base/text/text.h"
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
  for (const auto& [layer, expert_count] : manifest.plan.layers) {
    const ExpertIds lost = IdsWhere(HolderCounts(manifest.plan, layer, expert_count),
                                    [](uint32_t count) { return count == 0; });
    if (lost.empty()) continue;
    findings.Error(Cat("layer ", layer, ": expected every expert in a group or the remainder, ",
                       "found ", FormatIds(lost), " in none"));
  }
}

void CheckNoDuplicates(const Manifest& manifest, RuleFindings& findings) {
  for (const auto& [layer, expert_count] : manifest.plan.layers) {
    const ExpertIds twice = IdsWhere(HolderCounts(manifest.plan, layer, expert_count),
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

// A node has one overlay, so each overlay is checked separately; without any, the groups alone are.
struct OverlayCase {
  const OverlayPlan* overlay = nullptr;
  std::string where;  // prefix of findings: "", or "overlay v1, " if there are several
};

std::vector<OverlayCase> OverlayCases(const Plan& plan) {
  std::vector<OverlayCase> cases;
  for (const OverlayPlan& overlay : plan.overlays)
    cases.push_back(
        {&overlay, plan.overlays.size() > 1 ? Cat("overlay ", overlay.version, ", ") : ""});
  if (cases.empty()) cases.emplace_back();
  return cases;
}

void CheckOverlayFill(const Plan& plan, const OverlayPlan& overlay, RuleFindings& findings) {
  if (!overlay.fill.empty() && overlay.fill.size() != plan.groups.size()) {
    findings.Error(Cat("overlay ", overlay.version, ": fill: expected one entry for each of the ",
                       Plural(plan.groups.size(), "group"), ", found ", overlay.fill.size()));
    return;
  }
  for (size_t group = 0; group < overlay.fill.size(); ++group) {
    const LayerExperts held = HeldBy(plan.groups[group]);
    for (const auto& [layer, fill] : overlay.fill[group]) {
      const ExpertIds barred =
          Union(Union(IdsOf(held, layer), IdsOf(overlay.experts_by_layer, layer)),
                IdsOf(plan.remainder, layer));
      const ExpertIds wrong = moepack::Difference(fill, moepack::Difference(fill, barred));
      if (wrong.empty()) continue;
      findings.Error(Cat("overlay ", overlay.version, ", group ", group, ", layer ", layer,
                         ": fill: expected experts of other groups that are not in the overlay, "
                         "found ",
                         FormatIds(wrong)));
    }
  }
}

void CheckOverlays(const Manifest& manifest, RuleFindings& findings) {
  const Plan& plan = manifest.plan;
  std::set<std::string_view> versions;
  for (const OverlayPlan& overlay : plan.overlays) {
    if (!IsLabel(overlay.version)) {
      findings.Error(
          Cat("overlay: version: expected 1 to 64 of [A-Za-z0-9._-], the first not a "
              "dot, found ",
              Quoted(overlay.version)));
    }
    if (!versions.insert(overlay.version).second)
      findings.Error(
          Cat("overlay ", Quoted(overlay.version), ": version: expected once, found twice"));
    if (overlay.parent == overlay.version ||
        (!overlay.parent.empty() && !IsLabel(overlay.parent))) {
      findings.Error(Cat("overlay ", Quoted(overlay.version),
                         ": parent: expected the name of another version, found ",
                         Quoted(overlay.parent)));
    }
    CheckOverlayFill(plan, overlay, findings);
  }
  for (const BundleRecord& bundle : manifest.bundles) {
    if (bundle.role != Role::kOverlay || versions.contains(PartOf(bundle).overlay)) continue;
    std::vector<std::string> expected;
    for (const OverlayPlan& overlay : plan.overlays)
      expected.push_back(Quoted(OverlayDirectory(overlay.version) + "/"));
    findings.Error(
        Cat("overlay: expected ",
            expected.empty() ? "no file" : "a file below " + moepack::Join(expected, " or "),
            ", found ", Quoted(bundle.file)),
        bundle.file);
  }
}

void CheckEligible(const Manifest& manifest, RuleFindings& findings) {
  const Plan& plan = manifest.plan;
  for (const OverlayCase& one : OverlayCases(plan)) {
    for (const auto& [layer, top_k] : plan.top_k) {
      for (size_t group = 0; group < plan.groups.size(); ++group) {
        const size_t eligible = Eligible(plan, one.overlay, group, layer).size();
        if (eligible >= top_k) continue;
        findings.Error(Cat(one.where, "group ", group, ", layer ", layer,
                           ": eligible experts: expected at least ", top_k, " (top-k), found ",
                           eligible));
      }
    }
  }
}

void CheckUniform(const Manifest& manifest, RuleFindings& findings) {
  const Plan& plan = manifest.plan;
  if (!plan.uniform || plan.groups.empty() || plan.layers.empty()) return;
  for (const OverlayCase& one : OverlayCases(plan)) {
    const size_t expected = Eligible(plan, one.overlay, 0, plan.layers.begin()->first).size();
    for (const auto& [layer, expert_count] : plan.layers) {
      for (size_t group = 0; group < plan.groups.size(); ++group) {
        const size_t found = Eligible(plan, one.overlay, group, layer).size();
        if (found == expected) continue;
        findings.Error(Cat(one.where, "group ", group, ", layer ", layer,
                           ": eligible experts: expected ", expected,
                           " as in every group and layer, found ", found));
      }
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
  const std::string refit = manifest.refit ? RefitVersion(*manifest.refit) : "";
  if (manifest.versions.refit != refit) {
    findings.Error(Cat("refit version: expected ", Quoted(refit), ", found ",
                       Quoted(manifest.versions.refit)));
  }
}

constexpr std::array kPlanRules = {
    StructureRule{"expert-accounted", CheckAccounted},
    StructureRule{"no-duplicate-experts", CheckNoDuplicates},
    StructureRule{"fill-not-owned", CheckFill},
    StructureRule{"overlay-consistent", CheckOverlays},
    StructureRule{"eligible-at-least-top-k", CheckEligible},
    StructureRule{"uniform", CheckUniform},
    StructureRule{"versions", CheckVersions},
};

}  // namespace

std::span<const StructureRule> PlanRules() { return kPlanRules; }

}  // namespace moepack::manifest
