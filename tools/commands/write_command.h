// What shard-experts and build have in common: the options of writing and the run with its
// progress.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libshard/pack/refit_tensors.h"
#include "manifest/write/bundle.h"
#include "tools/options/options.h"
#include "tools/options/quantize_options.h"
#include "tools/options/task_option.h"

namespace moepack::cli {

struct WriteArguments {
  SourceArguments source;
  PlanOptions plan;
  std::string plan_file;  // or a distribution, instead of `plan`; "" for none
  std::string out;
  manifest::WriteOptions write;
  std::string container;  // --format; "" until ChooseContainer
  QuantizeArguments quantize;
  std::vector<std::string> only;  // parts, until ChooseParts
  std::string refit_store;        // a directory; "" for none
  bool no_refit_imatrix = false;
  std::shared_ptr<const RefitTensors> refit;  // what it holds, once ChooseRefit has read it
  TaskArguments task;
  bool dry_run = false, json = false;
};

// Adds --plan and the options that it replaces.
void AddPlanOrFile(CLI::App& app, WriteArguments& arguments);
// Refuses options that do not make a plan, before the source is opened.
Status CheckPlanOrFile(const WriteArguments& arguments);
// Sets arguments.plan.partition where none was named.
Result<Plan> FindPlan(const MoeModel& model, WriteArguments& arguments);
// The options that the plan is made from; null if it is read.
const PlanOptions* PlannedFrom(const WriteArguments& arguments);

// Adds -o and the options that control writing.
void AddWriteOptions(CLI::App& app, WriteArguments& arguments);

// Refuses an output that exists before any warning and any long work. With --only it may exist. No
// task writes to it.
Status CheckOutput(const SourceTree& source, const WriteArguments& arguments);

// Sets arguments.write.slice.parts from --only.
Status ChooseParts(const Plan& plan, WriteArguments& arguments);

// Reads the refit store and sets arguments.write.slice.refit, if one is named.
Status ChooseRefit(const MoeModel& model, const Plan& plan, WriteArguments& arguments);

// Decides between safetensors and GGUF using --format, the options about types, and the source, and
// sets arguments.write.gguf. Refuses options that would be ignored.
Status ChooseContainer(const MoeModel& model, const Plan& plan, WriteArguments& arguments);

struct TimedWrite {
  manifest::WriteReport report;
  double seconds = 0;
};
Result<TimedWrite> WriteWithProgress(MoeModel model, const Plan& plan,
                                     const WriteArguments& arguments);

// Plans the files and prints them with their sizes; nothing is written.
Result<int> RunDryRun(const MoeModel& model, const Plan& plan, const WriteArguments& arguments);

// Writes one task's share of the distribution and reports it. REQUIRES: everything is chosen.
Result<int> RunWriteTask(MoeModel model, const Plan& plan, const TaskNumber& task,
                         const WriteArguments& arguments);

// The command line as distribution.json records it: the options that determine the bytes, without
// paths and --jobs.
std::vector<std::string> RecordCommand(const char* command, const WriteArguments& arguments);

}  // namespace moepack::cli
