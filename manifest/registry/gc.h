// Removes from an image layout what nothing in it leads to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"

namespace moepack::registry {

struct GcOptions {
  uint64_t older_than = 7 * 24 * 3600;  // seconds: the age from which partial files are removed
  bool dry_run = false;                 // takes no lock
};

struct GcReport {
  struct Removed {
    std::string file;  // in the layout: "blobs/sha256/<digits>", "ingest/<digits>.part"
    uint64_t bytes = 0;
    // It was the last name of its content: only then does removing it free disk space.
    bool last_link = false;
  };
  std::vector<Removed> removed;         // in a dry run, those that would be
  std::vector<std::string> signatures;  // removed tags of signatures whose manifest is gone
  uint64_t kept_blobs = 0, kept_bytes = 0;
  uint64_t kept_partial = 0;            // files that can be resumed and are not old
  std::vector<std::string> left_alone;  // files whose names are not those of blobs
  uint64_t removed_bytes() const;
  uint64_t freed_bytes() const;
};

// Removes blobs that no entry of index.json leads to, whatever they are: every descriptor in a
// manifest or index counts, and nothing of an unknown type is assumed to be unused. Signatures, by
// their tags, do not outlive what they sign: their entries are removed from index.json first. A
// manifest that cannot be read ends the run before anything is removed. Also removes from `ingest`
// what a killed run left, and old partial files. Takes the layout's lock (kIo if another process
// has it), follows no links, and removes only regular files.
Result<GcReport> CollectGarbage(const std::string& directory, const GcOptions& options);

}  // namespace moepack::registry
