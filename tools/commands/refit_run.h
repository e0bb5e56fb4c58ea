// The run of a refit, which `refit` and `build --refit` share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/plan/plan.h"
#include "libshard/refit/refit_record.h"
#include "libshard/tasks/divide.h"
#include "runtime-shim/profile/second_moments.h"
#include "tools/options/refit_arguments.h"
#include "tools/options/runtime_options.h"
#include "tools/reports/runs/refit_report.h"

namespace moepack::cli {

// Appended to the name of a distribution: where its refitted experts go by default.
inline constexpr const char* kRefitStoreSuffix = ".refit";
// That directory, which is beside the distribution.
std::string RefitStoreBeside(const std::string& distribution);

// The whole model, on an executor that sees the inputs of its trunk. The experts of a model that is
// not split stay in the source. Destroyed in the order that borrowing requires.
struct RefitModelLoad {
  std::unique_ptr<runtime::SecondMoments> moments;
  LoadedModel loaded;
};
Result<RefitModelLoad> LoadForRefit(const RuntimeArguments& arguments);

// Which groups a run refits: those of --only, or the share of a task. Neither: all of them.
struct RefitShare {
  std::vector<uint32_t> only;  // ascending
  std::optional<TaskNumber> task;
  bool is_part() const { return !only.empty() || task.has_value(); }
};

struct RefitRun {
  const LoadedModel& loaded;  // the whole model
  const Plan& plan;
  std::string version;  // MoeModel::Version("") of the source
  const RefitArguments& arguments;
  std::string store;  // a directory
  // The moments of `loaded`, for the importance matrix that goes into the store; null: it only has
  // experts.
  runtime::SecondMoments* moments = nullptr;
  RefitShare share = {};
};

struct RefitDone {
  RefitRecord record;
  std::vector<uint32_t> groups;  // that were refitted; a task may have none, and then no store
  bool was_there = false;        // an earlier run had done everything
};

// Reads the texts, and refits every layer that the store does not have yet, printing a line for
// each group. What an earlier run finished is only checked. Errors are those of ReadSessions,
// RefitStoreWriter::Open and RefitModel. It warns of text of one bucket, of too little text and of
// a quantized source, and refuses held-out text that is also calibration text.
Result<RefitDone> RunRefit(const RefitRun& run);
// What RunRefit would need; nothing runs except products for a second, to measure their speed here.
Result<RefitNeeds> EstimateNeeds(const RefitRun& run);

}  // namespace moepack::cli
