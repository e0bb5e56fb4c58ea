// The run of a calibration, which `quantize` and `build` share.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/calibrate/calibrated_record.h"
#include "libshard/model/model.h"
#include "libshard/pack/calibrated_tensors.h"
#include "libshard/pack/slice_gguf.h"
#include "libshard/plan/plan.h"
#include "libshard/recipe/quantize.h"
#include "libshard/refit/refit_store.h"
#include "libshard/tasks/divide.h"
#include "tools/options/calibrate_arguments.h"
#include "tools/options/options.h"
#include "tools/options/runtime_options.h"
#include "tools/reports/runs/calibrate_report.h"

namespace moepack::cli {

// The output's name with .calibrated behind it.
std::string CalibratedStoreBeside(const std::string& output);

// A model on an executor that sees the inputs of its matrices. Its experts stay in the source.
// Destroyed in the order that borrowing requires.
struct CalibrateModel {
  std::unique_ptr<runtime::ProductWatch> watch;
  LoadedModel loaded;
};
Result<CalibrateModel> LoadForCalibration(const moepack::Source& source,
                                          const runtime::NodeOptions& options,
                                          std::shared_ptr<runtime::Executor> executor);
// How the model of a calibration is loaded and run.
runtime::NodeOptions OptionsToCalibrate(const ModelOptions& model, size_t jobs,
                                        const std::string& executor, uint32_t device);

// The groups of a refit, whose experts are encoded after the whole model. Borrows both.
struct RefittedGroups {
  const Plan& plan;
  const RefitStore& store;  // of that plan
};

struct CalibrateRun {
  const moepack::Source& source;
  const SourceArguments& named;  // the same, as it was named
  const MoeModel& model;
  const TypedGguf& typed;  // of that model
  const CalibrateArguments& arguments;
  std::string store;  // a directory
  size_t jobs = 0;
  std::optional<TaskNumber> task = {};  // of several that share the experts; no value: alone
  std::optional<RefittedGroups> groups = {};
};

// A store may be corrupt or hostile, and what it holds runs in the place of the model's tensors:
// kMismatch, with `where`, unless the record has the model's layers, and each of its tensors the
// size of one of the model's in its type, or of the experts of a group, and this type in `types`.
Status CheckEncodedFit(const std::string& where, const LoadedModel& loaded,
                       const runtime::TensorTypes& types, const CalibratedRecord& record);
// The same of a layer; without `experts` of the whole model, otherwise of that many of a group.
Status CheckLayerFit(const std::string& where, const LoadedModel& loaded,
                     const runtime::TensorTypes& types, const CalibratedOutcome& layer,
                     std::optional<size_t> experts);
// kCorrupt, with `where`, for an error that is not finite.
Status CheckFinite(const std::string& where, const CalibratedOutcome& outcome);

// kUnsupported if a tensor that is to be encoded is quantized already, kInvalidArgument if none is
// to be. Reads nothing.
Status CheckCanCalibrate(const CalibrateRun& run);
// Reads the texts, and encodes every layer that the store does not have yet, of the model and then
// of each group, printing a line for each. Errors are those of ReadSessions,
// CalibratedStoreWriter::Open and Calibrator. Refuses held-out text that is also calibration text.
// A task encodes some experts of each layer and waits for the other tasks, which have to run at the
// same time (calibrate_share.h). Returns how many seconds it took.
Result<double> RunCalibration(const CalibrateRun& run);
// What RunCalibration would need; nothing runs but a short trial of this machine's speed.
Result<CalibrateNeeds> EstimateNeeds(const CalibrateRun& run);
// The record of a run that has not begun: texts and layers are missing. A GGUF gets the same number
// of bytes from its keys as from those of the finished record.
CalibratedRecord RecordBefore(const CalibrateRun& run);
// The tensors of a store that is finished; its files follow `files_before` others. kMismatch for a
// store of other types.
Result<std::shared_ptr<const CalibratedTensors>> OpenCalibrated(const CalibrateRun& run,
                                                                size_t files_before);

struct CalibratedFiles {
  std::shared_ptr<const CalibratedTensors> tensors;
  std::vector<OutputFile> files;
  std::vector<SourceFile> sources;  // those of the model and of the store
};
// The whole model in files that have the tensors of the store, which is finished. `model` is that
// of run.typed; it gets the keys that name the calibration.
Result<CalibratedFiles> WholeCalibrated(const CalibrateRun& run, WholeGgufOptions options,
                                        GgufModel& model);

}  // namespace moepack::cli
