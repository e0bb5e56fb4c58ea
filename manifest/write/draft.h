// What a run will write, before a byte is written: every command that writes a distribution makes
// a draft first, which is then printed (--dry-run), packed (bundle.h), or divided among tasks
// (manifest/tasks).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libshard/format/checkpoint.h"
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
  // the draft is made.
  std::optional<SideFiles> side_files;
  std::vector<std::string> command;
  // Called before the work starts with what a user should know about types and conversion; may be
  // empty.
  std::function<void(const std::vector<std::string>&)> notes;
  // The same for faults of the source.
  std::function<void(const std::vector<std::string>&)> warnings;
};

// The files, with exact sizes.
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

struct Draft {
  // The model; its tensors are forgotten where files are only copied. Rows that are made from its
  // bytes are read through its checkpoint (RowReader). Null: nothing needs it.
  std::shared_ptr<const MoeModel> model;
  std::vector<SourceFile> sources;  // that are read; those of the model come first
  // MoeModel::Version of the source, which tells apart weights behind equal headers; the manifest
  // of a distribution has it already.
  std::string source_version;
  WritePlan files;
  // Without bundles and assets. No value: the files are one GGUF, not a distribution.
  std::optional<Manifest> manifest;
  // The side files before the model was opened; no value: they are bundles, or nothing is known.
  std::optional<SideFiles> noted;
  SourceTreePtr assets_from;  // of files.assets
  std::string assets_folder;  // in that tree: "", or ends in '/'
  // Whether the source has assets, if that determines what is absent.
  std::optional<bool> source_has_assets;
  // What must hold before the sources are read, and takes long; may be empty. One task in several
  // asks it for all.
  std::function<Status()> check;

  const char* format() const;  // of the bundles, as the manifest names it
};

// Refuses an `out` that is the source, or a directory that holds it; "" is for a draft that is only
// printed. Does not check what exists there. Move the model in if it is no longer needed, so that
// its tensors are freed early.
Result<Draft> DraftDistribution(MoeModel model, const Plan& plan, const std::string& out,
                                const WriteOptions& options);

// Otherwise freed tables of a hundred thousand tensors stay with the process, in addition to those
// that follow.
void ReturnFreedMemory();

}  // namespace moepack::manifest
