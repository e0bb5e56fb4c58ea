// A calibration that several machines do together: each encodes some experts of every layer, and
// gets the others from the directory that all of them share. There is no server.
//
// Task I of N writes its experts to a store of its own, STORE.tasks/0000I-of-0000N, layer by layer,
// and waits until the stores of the others have the layer. The first task also writes the whole
// store, from which a task that is started again goes on. Groups with refitted experts are then
// divided among the tasks, and the first one gathers them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/calibrate/calibrated_store.h"
#include "libshard/tasks/divide.h"
#include "runtime-shim/calibrate/expert_exchange.h"

namespace moepack::cli {

// Called again and again while a task waits: with what it waits for, and for how long it has. An
// error ends the wait.
using Waiting = std::function<Status(const std::string& what, double seconds)>;

class SharedExperts final : public runtime::ExpertExchange {
 public:
  // `record` is that of the whole calibration, `store` its directory. `types` are those of the
  // tensors, and are borrowed. Errors are those of CalibratedStoreWriter::Open: kMismatch where
  // other tasks of this number had other texts, options or instructions.
  static Result<std::unique_ptr<SharedExperts>> Open(
      const std::string& store, const TaskNumber& task, const CalibratedRecord& record,
      const std::map<std::string, const quant::Format*, std::less<>>& types, Waiting waiting);

  TaskNumber task() const override { return task_; }
  Result<std::optional<runtime::EncodedExperts>> Own(uint32_t layer) override;
  // kMismatch, naming it, for a task that calibrates something else, or with other instructions.
  Result<std::vector<runtime::EncodedExperts>> Exchange(runtime::EncodedExperts own) override;

  // The store of this task, for the groups that it encodes.
  CalibratedStoreWriter& own() { return own_; }
  // Waits until another task has a layer of a group, and returns its store. Errors are those of
  // Exchange.
  Result<CalibratedStore> WaitForGroup(uint32_t task, uint32_t group, uint32_t layer) const;

 private:
  SharedExperts(std::string directory, const TaskNumber& task,
                const std::map<std::string, const quant::Format*, std::less<>>& types,
                CalibratedRecord wanted, CalibratedStoreWriter own, Waiting waiting)
      : directory_(std::move(directory)),
        task_(task),
        types_(types),
        wanted_(std::move(wanted)),
        own_(std::move(own)),
        waiting_(std::move(waiting)) {}

  std::string DirectoryOf(uint32_t task) const;
  Result<runtime::EncodedExperts> ReadOwn(uint32_t layer) const;
  // No value if it is not there yet.
  Result<std::optional<CalibratedStore>> StoreOf(uint32_t task) const;
  // Waits until the store of a task `has` what is wanted, and returns that store.
  Result<CalibratedStore> WaitForStore(
      uint32_t task, const std::string& what,
      const std::function<bool(const CalibratedRecord&)>& has) const;
  Result<runtime::EncodedExperts> WaitFor(uint32_t task, uint32_t layer) const;

  std::string directory_;  // of all tasks
  TaskNumber task_;
  const std::map<std::string, const quant::Format*, std::less<>>& types_;
  CalibratedRecord wanted_;  // without layers
  CalibratedStoreWriter own_;
  Waiting waiting_;
};

// Waits until `ready` says so, looking again and again.
Status WaitUntil(const std::string& what, const Waiting& waiting,
                 const std::function<Result<bool>()>& ready);

}  // namespace moepack::cli
