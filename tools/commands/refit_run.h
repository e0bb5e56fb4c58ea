// A refit on behalf of a command: loads the model, reads the texts, and leaves a store.
#pragma once

#include <string>
#include <vector>

#include "libshard/plan/plan.h"
#include "libshard/refit/refit_record.h"
#include "tools/options/refit_arguments.h"
#include "tools/options/runtime_options.h"

namespace moepack::cli {

struct RefitRun {
  RuntimeArguments runtime;
  RefitArguments refit;
  std::string store;  // a directory
};

// A model with the plan that a refit is for.
struct RefitSource {
  LoadedModel loaded;
  Plan plan;
  std::string version;  // of the source
};

// Reads model and plan: that of `plan_file`, or of a distribution.
Result<RefitSource> OpenRefitSource(const RuntimeArguments& runtime, const std::string& plan_file);
// Prints warnings and a line for each group of a layer.
Result<RefitRecord> RunRefit(const RefitRun& run, const RefitSource& source);
// What RunRefit would need, without running anything but a product to see how fast they are.
Result<std::string> DescribeRefit(const RefitRun& run, const RefitSource& source);

}  // namespace moepack::cli
