// Makes a new version of a distribution's overlay. Trunk, routers and groups stay as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/pack/pack.h"
#include "manifest/document/diff.h"
#include "manifest/document/manifest.h"
#include "manifest/overlay/decide_overlay.h"
#include "manifest/overlay/missing_experts.h"
#include "manifest/write/link_file.h"

namespace moepack::manifest {

struct OverlayOptions {
  OverlayRequest request;
  OverlaySource source;        // where experts come from that no file of the distribution holds
  std::optional<size_t> keep;  // how many older versions the output keeps, the newest; none: all
  // How bundles get into the output; assets are always copied. REQUIRES: not kSymlink.
  LinkKind link = LinkKind::kAuto;
  PackOptions pack;
  bool force = false;    // replace an existing output
  bool dry_run = false;  // say what would be written
};

struct OverlayReport {
  struct File {
    std::string name;
    uint64_t bytes = 0;
    std::string link = {};  // "hardlink", ...; "" for what is newly written, and in a dry run
    bool carried = true;    // from the distribution
  };
  Manifest manifest;  // of the output; the new overlay is the current one
  std::vector<File> files;
  std::vector<Change> changes;       // relative to the overlay that was current
  uint64_t source_experts = 0;       // from the source, counted in every layer
  std::vector<std::string> dropped;  // versions that the output does not keep
  std::vector<std::string> notes;    // see DecidedOverlay
  // About what was left on disk, and statistics whose model could not be checked.
  std::vector<std::string> warnings;
  uint64_t total_bytes() const;
  uint64_t new_bytes() const;  // of what is not carried over
};

// Writes to `out` what `distribution` holds, linked, plus the new overlay. Its experts are copied
// from the groups and overlays that hold them, in whatever types these have; experts that none
// holds are made from the source. Copies are compared with their digests (kMismatch); linked files
// from which nothing is taken are not read. kMismatch also for scores of a model with other
// routers, kNotFound for a missing file of the distribution, kInvalidArgument without the source if
// it is needed; otherwise the errors of DecideOverlay.
Result<OverlayReport> MakeOverlay(const std::string& distribution, const std::string& out,
                                  const OverlayOptions& options);

}  // namespace moepack::manifest
