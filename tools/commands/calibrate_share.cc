#include "tools/commands/calibrate_share.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/base/tool_version.h"
#include "manifest/tasks/task_record.h"

namespace moepack::cli {
namespace calibrate_share {
namespace {

constexpr std::chrono::milliseconds kLooksAgain{200};

// What the record of a task has besides that of the whole: its number, which other stores do not
// have, and the version of moepack, since another one may round differently.
constexpr const char* kTask = "task";
constexpr const char* kVersion = "moepack";

CalibratedRecord RecordOf(const CalibratedRecord& whole, const TaskNumber& task) {
  CalibratedRecord record = whole;
  record.layers.clear();
  record.parameters[kTask] = Cat(task.index, "/", task.count);
  record.parameters[kVersion] = ToolVersion();
  return record;
}

runtime::EncodedExperts FromStore(const CalibratedOutcome& outcome, EncodedTensors tensors) {
  runtime::EncodedExperts experts;
  experts.outcome = outcome;
  experts.slabs = std::move(tensors);
  return experts;
}

}  // namespace
}  // namespace calibrate_share

Status WaitUntil(const std::string& what, const Waiting& waiting,
                 const std::function<Result<bool>()>& ready) {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    SHARD_TRY(const bool done, ready());
    if (done) return Ok();
    SHARD_CHECK(CheckInterrupt());
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    SHARD_CHECK(waiting(what, waited.count()));
    std::this_thread::sleep_for(calibrate_share::kLooksAgain);
  }
}

Result<std::unique_ptr<SharedExperts>> SharedExperts::Open(
    const std::string& store, const TaskNumber& task, const CalibratedRecord& record,
    const std::map<std::string, const quant::Format*, std::less<>>& types, Waiting waiting) {
  const std::string directory = manifest::TasksDirectory(store);
  const fs::path own = fs::path(directory) / manifest::TaskName(task);
  CalibratedRecord wanted = calibrate_share::RecordOf(record, task);
  SHARD_TRY(CalibratedStoreWriter writer, CalibratedStoreWriter::Open(own, wanted));
  return std::unique_ptr<SharedExperts>(new SharedExperts(directory, task, types, std::move(wanted),
                                                          std::move(writer), std::move(waiting)));
}

std::string SharedExperts::DirectoryOf(uint32_t task) const {
  return (fs::path(directory_) / manifest::TaskName({task, task_.count})).string();
}

Result<runtime::EncodedExperts> SharedExperts::ReadOwn(uint32_t layer) const {
  SHARD_TRY(EncodedTensors tensors, own_.Read(layer));
  return calibrate_share::FromStore(own_.record().layers[layer], std::move(tensors));
}

Result<std::optional<runtime::EncodedExperts>> SharedExperts::Own(uint32_t layer) {
  // A layer without experts is what stands there for one that was skipped.
  if (!own_.Has(layer) || own_.record().layers[layer].experts.empty())
    return std::optional<runtime::EncodedExperts>();
  SHARD_TRY(runtime::EncodedExperts experts, ReadOwn(layer));
  return std::optional(std::move(experts));
}

Result<std::vector<runtime::EncodedExperts>> SharedExperts::Exchange(runtime::EncodedExperts own) {
  const uint32_t layer = own.outcome.layer;
  // Layers that have no experts, and those that an earlier run encoded for a store that is gone.
  while (own_.record().layers.size() < layer) {
    CalibratedOutcome none;
    none.layer = static_cast<uint32_t>(own_.record().layers.size());
    SHARD_CHECK(own_.Add(none, {}, types_));
  }
  if (!own_.Has(layer)) SHARD_CHECK(own_.Add(own.outcome, own.slabs, types_));
  std::vector<runtime::EncodedExperts> all;
  for (uint32_t task = 0; task < task_.count; ++task) {
    if (task == task_.index) {
      all.push_back(std::move(own));
      continue;
    }
    SHARD_TRY(all.emplace_back(), WaitFor(task, layer));
  }
  return all;
}

Result<std::optional<CalibratedStore>> SharedExperts::StoreOf(uint32_t task) const {
  const std::string directory = DirectoryOf(task);
  SHARD_TRY(const bool there, IsThere(fs::path(directory) / kCalibratedFile));
  if (!there) return std::optional<CalibratedStore>();
  SHARD_TRY(CalibratedStore store, CalibratedStore::Open(directory));
  CalibratedRecord wanted = wanted_;
  wanted.parameters[calibrate_share::kTask] = Cat(task, "/", task_.count);
  const Status same = CheckSameCalibration(directory, wanted, store.record());
  if (same) return std::optional(std::move(store));
  Error error = same.error();
  error.hint = Cat("expected as in ", DirectoryOf(task_.index),
                   ": tasks work together only if they calibrate the same, on machines that round "
                   "alike; remove the directory of what is not wanted");
  return error;
}

Result<CalibratedStore> SharedExperts::WaitForStore(
    uint32_t task, const std::string& what,
    const std::function<bool(const CalibratedRecord&)>& has) const {
  std::optional<CalibratedStore> store;
  SHARD_CHECK(WaitUntil(Cat("task ", task, " of ", task_.count, ", ", what), waiting_,
                        [&]() -> Result<bool> {
                          SHARD_TRY(store, StoreOf(task));
                          return store && has(store->record());
                        }));
  return *std::move(store);
}

Result<CalibratedStore> SharedExperts::WaitForGroup(uint32_t task, uint32_t group,
                                                    uint32_t layer) const {
  return WaitForStore(
      task, Cat("group ", group, ", layer ", layer),
      [&](const CalibratedRecord& record) { return record.FindInGroup(group, layer) != nullptr; });
}

Result<runtime::EncodedExperts> SharedExperts::WaitFor(uint32_t task, uint32_t layer) const {
  SHARD_TRY(const CalibratedStore store,
            WaitForStore(task, Cat("layer ", layer), [&](const CalibratedRecord& record) {
              return record.layers.size() > layer;
            }));
  SHARD_TRY(EncodedTensors tensors, store.Read(layer));
  return calibrate_share::FromStore(store.record().layers[layer], std::move(tensors));
}

}  // namespace moepack::cli
