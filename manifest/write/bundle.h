// Writes a distribution: packs the sliced files, copies the assets, writes README.md and
// distribution.json last.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/inside_directory.h"
#include "libshard/format/side_files.h"
#include "libshard/model/model.h"
#include "libshard/pack/pack.h"
#include "libshard/pack/slice.h"
#include "libshard/plan/plan.h"
#include "libshard/recipe/quantize.h"
#include "libshard/recipe/recipe_types.h"
#include "manifest/document/manifest.h"
#include "manifest/write/assets.h"

namespace moepack::manifest {

struct WriteOptions {
  SliceOptions slice;
  std::optional<QuantizeOptions> gguf;  // GGUF bundles; no value: safetensors
  PackOptions pack;
  std::string model_id, revision;
  bool hash_source = false;  // read every source file once more for its SHA-256
  // The same, but also refuse a file whose SHA-256 is not the published one, or that has none.
  bool verify_source = false;
  bool force = false;       // replace an existing output
  bool list_types = false;  // fill WritePlan::types
  // The state of the side files before the model was opened. Without it, their state is noted when
  // writing starts.
  std::optional<SideFiles> side_files;
  std::vector<std::string> command;
  // Called before the work starts with what a user should know about types and conversion; may be
  // empty.
  std::function<void(const std::vector<std::string>&)> notes;
  // The same for faults of the source.
  std::function<void(const std::vector<std::string>&)> warnings;
};

// Everything that is known before anything is written (--dry-run), with exact sizes.
struct WritePlan {
  std::vector<OutputFile> files;
  std::vector<Asset> assets;
  Plan plan;                       // without layers that the bundles leave out
  RecipeRecord recipe;             // of GGUF bundles
  std::vector<std::string> notes;  // as in WriteOptions::notes
  std::vector<std::string> warnings;
  std::vector<TensorType> types;  // of the whole model as GGUF, if requested
  // The bytes of tensor files and assets, without distribution.json and README.md.
  uint64_t total_bytes() const;
};
Result<WritePlan> PlanDistribution(const MoeModel& model, const Plan& plan,
                                   const WriteOptions& options);

struct WriteReport {
  Manifest manifest;
  PackResult pack;
  std::vector<std::string> warnings;  // about what was left on disk, or as it was
};

// Refuses the values of `out` that WriteDistribution always refuses: the source, and a directory
// that holds it.
Status CheckTarget(const MoeModel& model, const std::string& out);

// Writes to `<out>.partial` and renames it. With a selection of parts, a distribution of the same
// model and partition at `out` is extended. An `out` that is or contains the source is refused.
// Move the model in if it is no longer needed, so that its tensors are freed early.
Result<WriteReport> WriteDistribution(MoeModel model, const Plan& plan, const std::string& out,
                                      const WriteOptions& options);

// Returns the README.md of a distribution, made from its manifest.
std::string DistributionReadme(const Manifest& manifest);

// README.md of a distribution whose manifest changes. What somebody wrote into it stays.
struct UpdatedReadme {
  std::optional<std::string> text;  // to write; no value: the file stays as it is
  bool edited = false;              // it is not what moepack wrote
  // The sections that change were as moepack wrote them. If not, the file stays as it is.
  bool shows_changes = true;
};
UpdatedReadme UpdateReadme(const InsideDirectory& directory, const Manifest& before,
                           const Manifest& after);
// True if README.md is there and is none of these texts; also if it cannot be read.
bool ReadmeIsEdited(const InsideDirectory& directory, const std::vector<std::string>& own);
// For users if the file stays as it is; `path` is that of the file.
std::string StaleReadmeWarning(const std::string& path);

}  // namespace moepack::manifest
