// Writes the draft of a distribution: packs the sliced files, copies the assets, writes README.md
// and distribution.json last.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/inside_directory.h"
#include "libshard/model/model.h"
#include "libshard/pack/pack.h"
#include "libshard/plan/plan.h"
#include "manifest/document/manifest.h"
#include "manifest/write/draft.h"

namespace moepack::manifest {

struct WriteReport {
  Manifest manifest;
  PackResult pack;
  std::vector<std::string> warnings;  // about what was left on disk, or as it was
};

// Packs the draft into `<out>.partial` and publishes it. With a selection of parts, a distribution
// of the same model and partition at `out` is extended. Uses slice.parts, gguf->alignment, pack,
// force, hash_source, verify_source and the callbacks of the options that the draft was made with.
Result<WriteReport> WriteDraft(Draft draft, const std::string& out, const WriteOptions& options);

// DraftDistribution, and then WriteDraft.
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
