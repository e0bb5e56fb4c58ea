// What shard-experts and build have in common: their options, the job that these make, and the run
// of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libshard/pack/calibrated_tensors.h"
#include "libshard/pack/refit_tensors.h"
#include "manifest/write/bundle.h"
#include "tools/options/calibrate_arguments.h"
#include "tools/options/options.h"
#include "tools/options/quantize_options.h"
#include "tools/options/task_option.h"
#include "tools/reports/runs/calibrate_report.h"

namespace moepack::cli {

// What the command line says.
struct WriteArguments {
  SourceArguments source;
  PlanOptions plan;
  std::string plan_file;  // or a distribution, instead of `plan`; "" for none
  std::string out;
  manifest::WriteOptions write;  // what options set directly; MakeWriteJob decides the rest
  std::string container;         // --format; "" if not named
  QuantizeArguments quantize;
  std::vector<std::string> only;  // parts
  std::string refit_store;        // a directory; "" for none
  bool no_refit_imatrix = false;
  CalibrateArguments calibrate;
  TaskArguments task;
  bool dry_run = false, json = false;
};

// Adds --plan and the options that it replaces.
void AddPlanOrFile(CLI::App& app, WriteArguments& arguments);
// Adds -o and the options that control writing.
void AddWriteOptions(CLI::App& app, WriteArguments& arguments);

// A run that is decided: everything is checked, opened and chosen, and no byte is written.
struct WriteJob {
  std::string out;
  moepack::Source source;
  uint64_t source_bytes = 0;  // of all its files
  std::optional<TaskNumber> task;
  bool dry_run = false, json = false;
  Plan plan;
  std::string refit_store;                              // "" for none
  std::shared_ptr<const RefitTensors> refit;            // what it holds; `write` borrows it
  std::string calibrated_store;                         // "" for none
  std::shared_ptr<const CalibratedTensors> calibrated;  // the same of a calibration's store
  std::optional<CalibrateNeeds> needs;                  // of a calibration, with dry_run
  manifest::WriteOptions write;
  manifest::Draft draft;  // moved out when it is written
};

// What one command does of its own while its job is made.
struct OwnSteps {
  // Refuses options that need the whole output, if the run is a task; may be empty.
  std::function<Status()> check_task;
  // Changes the plan; may be empty.
  std::function<Status(Plan&)> plan;
  // Returns the refit store, which it may make now; "" for none. All but the store and the draft is
  // decided by then. If empty, the store is the one that is named.
  std::function<Result<std::string>(const MoeModel&, const WriteJob&)> store;
  std::vector<std::string> words;  // that distribution.json records too
};
// Checks what needs no file, opens the source, decides everything, and makes the draft. `command`
// is recorded in distribution.json. Refuses an output that exists before any long work; with --only
// it may exist, and no task writes to it.
Result<WriteJob> MakeWriteJob(const char* command, const WriteArguments& arguments,
                              const OwnSteps& own);

struct TimedWrite {
  manifest::WriteReport report;
  double seconds = 0;
};
Result<TimedWrite> WriteWithProgress(WriteJob& job);

// Prints the files with their sizes; nothing is written. Returns the exit status.
Result<int> RunDryRun(const WriteJob& job);

// Writes one task's share of the distribution and reports it. REQUIRES: job.task. Returns the exit
// status.
Result<int> RunWriteTask(WriteJob& job);

}  // namespace moepack::cli
