// Works out what a distribution should hold from its source, plan and recipe, with the code that
// writes distributions. Internal to manifest/.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf.h"
#include "libshard/model/model.h"
#include "libshard/pack/calibrated_tensors.h"
#include "libshard/pack/refit_tensors.h"
#include "manifest/verify/verify.h"
#include "manifest/write/bundle.h"

namespace moepack::manifest {

// What neither the source nor the manifest says: where importance matrices are, and how the model
// was opened.
struct RemakeOptions {
  std::vector<std::string> imatrix_files;      // for all steps, in any order
  std::string pre;                             // ConvertOptions::pre
  uint64_t alignment = kGgufDefaultAlignment;  // of GGUF bundles
};

// Returns the steps of the distribution: the recipes of its parents, if any, then its own.
// kCorrupt, naming the field, for a recipe that no writer would record; kInvalidArgument if an
// importance matrix is not among the files.
Result<std::vector<QuantizeOptions>> StepsOf(const Manifest& manifest,
                                             const RemakeOptions& options);

// Returns every file of the plan with its header and how the bytes of its tensors are made, and the
// assets. Parts are divided into files as in the manifest. `refit`, if not null, makes the derived
// tensors, and `calibrated` those that the manifest says were calibrated; without these they have
// the source's bytes, which are not compared. REQUIRES: the layers of the plan have no more experts
// than those of the model.
Result<WritePlan> Remake(const Manifest& manifest, const MoeModel& model,
                         const std::vector<QuantizeOptions>& steps,
                         const RefitTensors* refit = nullptr,
                         const CalibratedTensors* calibrated = nullptr);

}  // namespace moepack::manifest
