#include "tools/commands/calibrate_groups.h"

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "libshard/base/text/text.h"
#include "runtime-shim/refit/twins.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/reports/runs/calibrate_report.h"

namespace moepack::cli {
namespace calibrate_groups {
namespace {

// Whether two groups make the same node.
Result<bool> SameNode(const RefittedGroups& groups, uint32_t a, uint32_t b) {
  if (!runtime::HoldSameExperts(groups.plan, a, b)) return false;
  for (const auto& [layer, count] : groups.plan.layers) {
    SHARD_TRY(const std::optional<RefittedExperts> one, groups.store.Read(layer, a));
    SHARD_TRY(const std::optional<RefittedExperts> other, groups.store.Read(layer, b));
    if (one.has_value() != other.has_value()) return false;
    if (one && !HaveSameValues(*one, *other)) return false;
  }
  return true;
}

// The first group that makes the same node: the group itself if no earlier one does.
Result<uint32_t> FirstTwin(const RefittedGroups& groups, uint32_t group) {
  for (uint32_t twin = 0; twin < group; ++twin) {
    SHARD_TRY(const bool same, SameNode(groups, twin, group));
    if (same) return twin;
  }
  return group;
}

// By group, the task that encodes it: twins stay together.
Result<std::vector<uint32_t>> TasksOf(const RefittedGroups& groups, uint32_t tasks) {
  std::vector<uint32_t> owners;
  uint32_t different = 0;
  for (uint32_t group = 0; group < groups.plan.groups.size(); ++group) {
    SHARD_TRY(const uint32_t twin, FirstTwin(groups, group));
    owners.push_back(twin < group ? owners[twin] : different++ % tasks);
  }
  return owners;
}

class GroupsEncoding {
 public:
  GroupsEncoding(const GroupsToEncode& work, CalibratedStoreWriter& store)
      : work_(work),
        groups_(work.groups),
        store_(store),
        refit_(RefitVersion(work.groups.store.record())) {}

  Status Encode(uint32_t group) {
    const bool done = Has(group, layers() - 1);
    for (uint32_t layer = 0; done && layer < layers(); ++layer) Say(group, layer, /*again=*/true);
    if (done) return Ok();
    SHARD_TRY(const uint32_t twin, FirstTwin(groups_, group));
    return twin < group ? Copy(twin, group) : Run(group);
  }

 private:
  uint32_t layers() const { return store_.record().layer_count; }
  bool Has(uint32_t group, uint32_t layer) const {
    return store_.record().FindInGroup(group, layer) != nullptr;
  }

  Status Copy(uint32_t twin, uint32_t group) {
    for (uint32_t layer = 0; layer < layers(); ++layer) {
      const bool there = Has(group, layer);
      if (!there) {
        SHARD_TRY(const EncodedTensors tensors, store_.ReadInGroup(twin, layer));
        SHARD_CHECK(store_.AddToGroup(refit_, group, *store_.record().FindInGroup(twin, layer),
                                      tensors, work_.input.types));
      }
      Say(group, layer, there);
    }
    return Ok();
  }

  Status Run(uint32_t group) {
    Progress progress(Cat("calibrating group ", group), ProgressUnit::kTokens);
    const runtime::CalibrateGroup node{groups_.plan, groups_.store, group, work_.whole};
    SHARD_TRY(const std::unique_ptr<runtime::Calibrator> calibrator,
              runtime::Calibrator::OpenGroup(work_.input, node, work_.options, progress.Shows()));
    for (uint32_t layer = 0; layer < layers(); ++layer) {
      const bool there = Has(group, layer);
      SHARD_CHECK(there ? Replay(*calibrator, group, layer) : Add(*calibrator, group, layer));
      progress.Clear();
      Say(group, layer, there);
    }
    return Ok();
  }

  Status Replay(runtime::Calibrator& calibrator, uint32_t group, uint32_t layer) {
    runtime::EncodedLayer encoded;
    SHARD_TRY(encoded.tensors, store_.ReadInGroup(group, layer));
    return calibrator.Replay(layer, encoded);
  }

  Status Add(runtime::Calibrator& calibrator, uint32_t group, uint32_t layer) {
    SHARD_TRY(const runtime::EncodedLayer encoded, calibrator.Encode(layer));
    SHARD_CHECK(CheckFinite(Cat(Shown(groups_.store.directory().string()), ": group ", group),
                            encoded.outcome));
    return store_.AddToGroup(refit_, group, encoded.outcome, encoded.tensors, work_.input.types);
  }

  void Say(uint32_t group, uint32_t layer, bool again) const {
    PrintMessage(CalibratedGroupLine(group, *store_.record().FindInGroup(group, layer), again));
  }

  const GroupsToEncode& work_;
  const RefittedGroups& groups_;
  CalibratedStoreWriter& store_;
  std::string refit_;
};

}  // namespace
}  // namespace calibrate_groups

Status EncodeGroups(const GroupsToEncode& work, CalibratedStoreWriter& store) {
  calibrate_groups::GroupsEncoding encoding(work, store);
  for (uint32_t group = 0; group < work.groups.plan.groups.size(); ++group)
    SHARD_CHECK(encoding.Encode(group));
  return Ok();
}

Status EncodeGroupsOfTask(const GroupsToEncode& work, SharedExperts& shared) {
  const TaskNumber task = shared.task();
  SHARD_TRY(const std::vector<uint32_t> tasks, calibrate_groups::TasksOf(work.groups, task.count));
  calibrate_groups::GroupsEncoding encoding(work, shared.own());
  for (uint32_t group = 0; group < tasks.size(); ++group) {
    if (tasks[group] == task.index) SHARD_CHECK(encoding.Encode(group));
  }
  return Ok();
}

Status GatherGroups(const GroupsToEncode& work, SharedExperts& shared,
                    CalibratedStoreWriter& store) {
  const std::string refit = RefitVersion(work.groups.store.record());
  SHARD_TRY(const std::vector<uint32_t> tasks,
            calibrate_groups::TasksOf(work.groups, shared.task().count));
  for (uint32_t group = 0; group < tasks.size(); ++group) {
    for (uint32_t layer = 0; layer < store.record().layer_count; ++layer) {
      if (store.record().FindInGroup(group, layer) != nullptr) continue;
      SHARD_TRY(const CalibratedStore from, shared.WaitForGroup(tasks[group], group, layer));
      SHARD_TRY(const EncodedTensors tensors, from.ReadInGroup(group, layer));
      SHARD_CHECK(store.AddToGroup(refit, group, *from.record().FindInGroup(group, layer), tensors,
                                   work.input.types));
    }
  }
  return Ok();
}

std::vector<runtime::GroupExperts> ExpertsOf(const RefittedGroups& groups) {
  std::vector<runtime::GroupExperts> all(groups.plan.groups.size());
  for (uint32_t group = 0; group < all.size(); ++group) {
    for (const auto& [layer, count] : groups.plan.layers) {
      const RefitOutcome* const outcome = groups.store.record().Find(layer, group);
      all[group][layer] = {Eligible(groups.plan, group, layer).size(),
                           outcome == nullptr ? 0 : outcome->expert_ids.size()};
    }
  }
  return all;
}

Status CheckFinite(const std::string& where, const CalibratedOutcome& outcome) {
  if (std::isfinite(outcome.error_plain) && std::isfinite(outcome.error)) return Ok();
  return Error{Code::kCorrupt,
               Cat(where, ": layer ", outcome.layer,
                   ": error of the products: expected a finite number, found ",
                   std::isfinite(outcome.error) ? outcome.error_plain : outcome.error)};
}

}  // namespace moepack::cli
