// The passes of an experiment: whose weights run, and which rows are measured with them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "libshard/base/progress.h"
#include "libshard/base/text/json.h"
#include "libshard/model/model.h"
#include "runtime-shim/experiment/run.h"
#include "tools/commands/experiment/experiment_plans.h"

namespace moepack::cli {

struct ExperimentModels {
  const ExperimentArguments& arguments;
  const MoeModel& model;
  std::vector<ExperimentSplit> splits;
  std::filesystem::path work;  // where the models that are made are until it is complete
  // Progress within a session of a pass: tokens of all its runs; may be empty.
  OnProgress progress;
};

// Rows in the order of the report: the splits of the model as it is stored; then for each recipe
// quantization alone, and the splits of the quantized model; then, if there are texts for it, the
// same calibrated; and, if there are texts for that, the refitted splits as stored and for each
// recipe.
std::vector<runtime::ExperimentRow> ExperimentRows(const ExperimentModels& models);
// The passes that measure them: one for the model, one per recipe, one per calibrated recipe, and
// one for each refitted row. Borrows `models`.
std::vector<runtime::ExperimentPass> ExperimentPasses(const ExperimentModels& models);
// For each row: how many nodes a session of it has.
std::vector<size_t> NodesOfRows(const ExperimentModels& models);
// How many times a token of a session runs in a pass.
uint64_t RunsOfPass(const ExperimentModels& models, size_t pass);

// Refuses recipes that cannot be calibrated before anything runs.
Status CheckCalibrations(const ExperimentModels& models);
// Whether anything is written besides the results.
bool NeedsWork(const ExperimentModels& models);
// Creates the directory of quantized, calibrated and refitted models. Those left by an experiment
// with another setup are removed.
Status MakeWork(const ExperimentModels& models, const Json& setup);
// Removes the directory.
void RemoveWork(const ExperimentModels& models);

}  // namespace moepack::cli
