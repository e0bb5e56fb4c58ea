// What an experiment compares: from a plan in JSON, from options, or from both.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/plan/plan.h"
#include "runtime-shim/eval/evaluate.h"
#include "runtime-shim/refit/refit_options.h"
#include "tools/options/calibrate_arguments.h"
#include "tools/options/runtime_options.h"
#include "tools/options/session_texts.h"

namespace moepack::cli {

struct ExperimentArguments {
  std::string experiment;                       // the file; "" for none
  RuntimeArguments runtime;                     // of the model
  TextArguments texts;                          // held out
  runtime::EvalOptions eval = {.generate = 0};  // of every pass, before it is fitted to memory
  PlanOptions plan;  // groups, eligible, statistics; each strategy sets the partition
  std::vector<std::string> strategies;
  std::vector<std::string> recipes;      // empty: nothing is quantized
  std::string imatrix;                   // for the recipes; "" for none
  CalibrateArguments calibrate;          // its texts, how much of them, and the context
  std::vector<std::string> refit_texts;  // on which splits are refitted; empty: no refit
  runtime::RefitOptions refit;           // its steps and updates
  uint32_t race_tokens = 32;
  double until_error = 0;  // 0: all sessions run
  uint32_t looks = 0;      // 0: kUsualLooks with until_error, else 1
  std::optional<uint64_t> memory;
  std::string out;
  bool force = false, dry_run = false, json = false;
};

inline constexpr uint32_t kUsualLooks = 4;

// Adds the argument SRC, which is a model or the file of an experiment, and the options.
void AddExperimentOptions(CLI::App& app, ExperimentArguments& arguments);
// Reads the file, if SRC is one; given options take precedence. Then sets what is not given, and
// refuses what makes no sense: kInvalidArgument, or kCorrupt for the file.
Status CompleteExperiment(const CLI::App& app, ExperimentArguments& arguments);

}  // namespace moepack::cli
