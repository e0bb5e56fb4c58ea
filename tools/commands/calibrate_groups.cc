#include "tools/commands/calibrate_groups.h"

#include <algorithm>
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

// Whether two groups make the same node. Values are read only where the records leave it open.
Result<bool> SameNode(const RefittedGroups& groups, uint32_t a, uint32_t b) {
  if (!runtime::HoldSameExperts(groups.plan, a, b)) return false;
  const RefitRecord& record = groups.store.record();
  for (const auto& [layer, count] : groups.plan.layers) {
    const RefitOutcome* const one = record.Find(layer, a);
    const RefitOutcome* const other = record.Find(layer, b);
    const bool in_one = one != nullptr && one->accepted;
    const bool in_other = other != nullptr && other->accepted;
    if (in_one != in_other) return false;
    if (!in_one || one->sha256 == other->sha256) continue;
    if (one->expert_ids != other->expert_ids || one->arrays != other->arrays) return false;
    SHARD_TRY(const std::optional<RefittedExperts> values, groups.store.Read(layer, a));
    SHARD_TRY(const std::optional<RefittedExperts> others, groups.store.Read(layer, b));
    if (!values || !others || !HaveSameValues(*values, *others)) return false;
  }
  return true;
}

// By group, the task that encodes it: twins stay together.
std::vector<uint32_t> TasksOf(const std::vector<uint32_t>& twins, uint32_t tasks) {
  std::vector<uint32_t> owners;
  uint32_t different = 0;
  for (uint32_t group = 0; group < twins.size(); ++group) {
    const uint32_t twin = twins[group];
    owners.push_back(twin < group ? owners[twin] : different++ % tasks);
  }
  return owners;
}

class GroupsEncoding {
 public:
  GroupsEncoding(const GroupsToEncode& work, const std::vector<uint32_t>& twins,
                 CalibratedStoreWriter& store)
      : work_(work),
        groups_(work.groups),
        twins_(twins),
        store_(store),
        refit_(RefitVersion(work.groups.store.record())) {}

  Status Encode(uint32_t group) {
    const bool done = Has(group, layers() - 1);
    for (uint32_t layer = 0; done && layer < layers(); ++layer) Say(group, layer, /*again=*/true);
    if (done) return Ok();
    return twins_[group] < group ? Copy(twins_[group], group) : Run(group);
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

  // Layers up to this one, exclusively, have refitted experts.
  uint32_t EndOfRefitted(uint32_t group) const {
    for (uint32_t end = layers(); end > 0; --end) {
      const RefitOutcome* const outcome = groups_.store.record().Find(end - 1, group);
      if (outcome != nullptr && outcome->accepted) return end;
    }
    return 0;
  }

  Status Run(uint32_t group) {
    uint32_t end = EndOfRefitted(group);
    if (end > 0 && Has(group, end - 1)) end = 0;  // nothing is left to encode
    Progress progress(Cat("calibrating group ", group), ProgressUnit::kTokens);
    const runtime::CalibrateGroup node{groups_.plan, groups_.store, group, work_.whole};
    std::unique_ptr<runtime::Calibrator> calibrator;
    if (end > 0) {
      SHARD_TRY(calibrator,
                runtime::Calibrator::OpenGroup(work_.input, node, work_.options, progress.Shows()));
    }
    for (uint32_t layer = 0; layer < layers(); ++layer) {
      const bool there = Has(group, layer);
      if (layer < end) {
        SHARD_CHECK(there ? Replay(*calibrator, group, layer) : Add(*calibrator, group, layer));
      } else if (!there) {
        SHARD_CHECK(AddNothing(group, layer));
      }
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
    SHARD_CHECK(CheckFinite(Cat(work_.source, ": group ", group), encoded.outcome));
    return store_.AddToGroup(refit_, group, encoded.outcome, encoded.tensors, work_.input.types);
  }

  Status AddNothing(uint32_t group, uint32_t layer) {
    CalibratedOutcome none;
    none.layer = layer;
    return store_.AddToGroup(refit_, group, std::move(none), {}, work_.input.types);
  }

  void Say(uint32_t group, uint32_t layer, bool again) const {
    PrintMessage(CalibratedGroupLine(group, *store_.record().FindInGroup(group, layer), again));
  }

  const GroupsToEncode& work_;
  const RefittedGroups& groups_;
  const std::vector<uint32_t>& twins_;
  CalibratedStoreWriter& store_;
  std::string refit_;
};

// Nobody has checked yet what a task encoded.
Status CheckOfTask(const GroupsToEncode& work, const CalibratedStore& from, uint32_t group,
                   const CalibratedOutcome& layer) {
  const std::string where = Cat(Shown(from.directory().string()), ": group ", group);
  SHARD_CHECK(CheckLayerFit(where, work.loaded, work.input.types, layer, layer.experts.size()));
  const RefitOutcome* const refitted = work.groups.store.record().Find(layer.layer, group);
  const ExpertIds ids = refitted == nullptr ? ExpertIds() : refitted->expert_ids;
  const bool same =
      std::equal(ids.begin(), ids.end(), layer.experts.begin(), layer.experts.end(),
                 [](uint32_t id, const CalibratedExpert& expert) { return id == expert.id; });
  if (same) return Ok();
  return Error{Code::kMismatch,
               Cat(where, ", layer ", layer.layer, ": experts: expected those of the refit, ",
                   Quoted(FormatIds(ids)), ", found others"),
               "remove the directory, and run the task again"};
}

}  // namespace
}  // namespace calibrate_groups

Result<std::vector<uint32_t>> FirstWithSameNode(const RefittedGroups& groups) {
  std::vector<uint32_t> twins;
  for (uint32_t group = 0; group < groups.plan.groups.size(); ++group) {
    uint32_t twin = 0;
    for (; twin < group; ++twin) {
      // What equals a group that has an earlier twin equals that one, too.
      if (twins[twin] < twin) continue;
      SHARD_TRY(const bool same, calibrate_groups::SameNode(groups, twin, group));
      if (same) break;
    }
    twins.push_back(twin);
  }
  return twins;
}

Status EncodeGroups(const GroupsToEncode& work, CalibratedStoreWriter& store) {
  SHARD_TRY(const std::vector<uint32_t> twins, FirstWithSameNode(work.groups));
  calibrate_groups::GroupsEncoding encoding(work, twins, store);
  for (uint32_t group = 0; group < twins.size(); ++group) SHARD_CHECK(encoding.Encode(group));
  return Ok();
}

Status EncodeGroupsOfTask(const GroupsToEncode& work, const std::vector<uint32_t>& twins,
                          const CalibratedRecord& gathered, SharedExperts& shared) {
  const TaskNumber task = shared.task();
  const std::vector<uint32_t> tasks = calibrate_groups::TasksOf(twins, task.count);
  // A group that is missing is copied from its twin.
  std::vector<bool> missing(tasks.size());
  for (uint32_t group = 0; group < tasks.size(); ++group) {
    if (gathered.FindInGroup(group, gathered.layer_count - 1) == nullptr)
      missing[group] = missing[twins[group]] = true;
  }
  calibrate_groups::GroupsEncoding encoding(work, twins, shared.own());
  for (uint32_t group = 0; group < tasks.size(); ++group) {
    if (tasks[group] == task.index && missing[group]) SHARD_CHECK(encoding.Encode(group));
  }
  return Ok();
}

Status GatherGroups(const GroupsToEncode& work, const std::vector<uint32_t>& twins,
                    SharedExperts& shared, CalibratedStoreWriter& store) {
  const std::string refit = RefitVersion(work.groups.store.record());
  const std::vector<uint32_t> tasks = calibrate_groups::TasksOf(twins, shared.task().count);
  for (uint32_t group = 0; group < tasks.size(); ++group) {
    for (uint32_t layer = 0; layer < store.record().layer_count; ++layer) {
      if (store.record().FindInGroup(group, layer) != nullptr) continue;
      SHARD_TRY(const CalibratedStore from, shared.WaitForGroup(tasks[group], group, layer));
      const CalibratedOutcome& outcome = *from.record().FindInGroup(group, layer);
      SHARD_CHECK(calibrate_groups::CheckOfTask(work, from, group, outcome));
      SHARD_TRY(const EncodedTensors tensors, from.ReadInGroup(group, layer));
      SHARD_CHECK(store.AddToGroup(refit, group, outcome, tensors, work.input.types));
    }
  }
  return Ok();
}

std::vector<runtime::GroupExperts> ExpertsOf(const RefittedGroups& groups) {
  const std::optional<RefitPart>& part = groups.store.part();
  std::vector<runtime::GroupExperts> all;
  for (uint32_t group = 0; group < groups.plan.groups.size(); ++group) {
    if (part && !Contains(part->groups, group)) continue;
    runtime::GroupExperts& experts = all.emplace_back();
    for (const auto& [layer, count] : groups.plan.layers) {
      const RefitOutcome* const outcome = groups.store.record().Find(layer, group);
      experts[layer] = {Eligible(groups.plan, group, layer).size(),
                        outcome == nullptr ? 0 : outcome->expert_ids.size()};
    }
  }
  return all;
}

}  // namespace moepack::cli
