// Writes a distribution: packs the sliced files, copies the assets, writes README.md and
// distribution.json last.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libshard/format/side_files.h"
#include "libshard/model/model.h"
#include "libshard/pack/pack.h"
#include "libshard/pack/slice.h"
#include "libshard/plan/plan.h"
#include "libshard/recipe/quantize.h"
#include "libshard/recipe/type_list.h"
#include "manifest/document/manifest.h"
#include "manifest/write/assets.h"

namespace moepack::manifest {

struct WriteOptions {
  SliceOptions slice;
  std::optional<QuantizeOptions> gguf;  // GGUF bundles; none: safetensors
  PackOptions pack;
  std::string model_id, revision;
  bool hash_source = false;  // read every source file once more for its SHA-256
  bool force = false;        // replace an existing output
  bool list_types = false;   // fill WritePlan::types
  // Noted before the model was opened; if there is none, when the writing starts.
  std::optional<SideFiles> side_files;
  std::vector<std::string> command;
  // Gets what a user should know about types and conversion, before the work starts; may be empty.
  std::function<void(const std::vector<std::string>&)> notes;
};

// The file list with exact sizes, before anything is written (--dry-run).
struct WritePlan {
  std::vector<OutputFile> files;
  std::vector<Asset> assets;
  Plan plan;                       // without layers that the bundles leave out
  RecipeRecord recipe;             // of GGUF bundles
  std::vector<std::string> notes;  // as WriteOptions::notes
  std::vector<TensorType> types;   // of the whole model as GGUF; if asked for
  // Tensor files and assets; distribution.json and README.md are added to them.
  uint64_t total_bytes() const;
};
Result<WritePlan> PlanDistribution(const MoeModel& model, const Plan& plan,
                                   const WriteOptions& options);

struct WriteReport {
  Manifest manifest;
  PackResult pack;
  std::vector<std::string> warnings;  // about what was left on the disk
};

// The values of `out` that WriteDistribution always refuses: the source, and what holds it.
Status CheckTarget(const MoeModel& model, const std::string& out);

// Writes to `<out>.partial` and renames. With a selection of parts, an existing distribution of the
// same model and partition at `out` is extended. Refuses an `out` that is, or holds, the source.
// Whoever does not need the model any more moves it in: its tensors are then freed in time.
Result<WriteReport> WriteDistribution(MoeModel model, const Plan& plan, const std::string& out,
                                      const WriteOptions& options);

// The README.md of a distribution, from its manifest.
std::string DistributionReadme(const Manifest& manifest);

}  // namespace moepack::manifest
