// Creates a distribution's directory with the files of some groups from what a reference names.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/pack/pack.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/open_store.h"
#include "manifest/registry/sign/keys.h"
#include "manifest/registry/sign/verify_signatures.h"
#include "manifest/write/link_file.h"

namespace moepack::registry {

struct PullReport {
  struct File {
    std::string name, digest;
    uint64_t bytes = 0;
    // "hardlink", "reflink" or "copy"; "fetched" from another machine, "resumed" if an earlier run
    // did that; "there" for one that the output has, or had before an update; "" in a dry run.
    std::string how = {};
    bool there = false;
  };
  std::string digest;            // of the manifest that the reference named
  std::vector<uint32_t> groups;  // that were requested
  // The version that was requested, "" for the current one of the set; no value for no overlay.
  std::optional<std::string> overlay;
  bool extended = false;  // the output existed, and files were added to it
  // Of `digest`, by PullOptions::keys, which were checked before the first file was fetched.
  std::vector<GoodSignature> signatures;
  std::vector<File> files;
  // Of files from another machine: bytes that this run fetched, and bytes that an earlier one had.
  uint64_t fetched_bytes = 0, resumed_bytes = 0;
  // About a tag that moved, groups that an update leaves out, and what was left on disk.
  std::vector<std::string> warnings;
  uint64_t total_bytes() const;
  uint64_t there_bytes() const;
  // What this run brought: neither there nor fetched by an earlier run.
  uint64_t new_bytes() const;
};

struct PullOptions {
  // May be empty for a node view, which has one group, and for an output that was pulled before.
  std::vector<uint32_t> groups;
  bool overlay = true;
  // Which the set must have. "": that of an output with the same set, or none if an output that was
  // pulled before has none; else the current one of the set.
  std::string overlay_version;
  // The directory in which the caller will assemble a node from the output, or "": what would
  // prevent that is refused before anything is fetched.
  std::string node;
  // How bundles get into the output; no value: kAuto. Small files are always copied, because people
  // edit them. REQUIRES: not kSymlink.
  std::optional<manifest::LinkKind> link = std::nullopt;
  // Use what the tag names now, not what the output was pulled from, and keep the files that both
  // have. It replaces only an output that was pulled.
  bool update = false;
  bool force = false;  // replace an output that is another distribution
  bool dry_run = false;
  // Public keys, one of which must have signed the manifest; empty: signatures are not checked.
  std::vector<PublicKey> keys = {};
  StoreAccess access = {};
  PackOptions pack;  // its jobs and progress
  // Called with what will be written, before anything is written; may be empty.
  std::function<void(const PullReport&)> planned;
};

// A required signature is checked before any blob (kMismatch without a good one). Then everything
// is checked from the manifest's digest down before the output appears: descriptors against
// distribution.json, and every byte against its SHA-256 (kCorrupt). `out` then holds the published
// distribution.json, byte for byte, the files of trunk, overlay and groups, and kPullLockFile. An
// `out` that was pulled from the same reference gets what it was pulled from, even if the tag has
// moved. An `out` with the same distribution.json gets the files that it lacks, and new copies of
// corrupt ones; any other existing `out` is kInvalidArgument without `force` or, if it was pulled,
// `update`.
Result<PullReport> Pull(const Reference& from, const std::string& out, const PullOptions& options);

}  // namespace moepack::registry
