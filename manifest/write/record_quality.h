// Puts what `eval` measured into an existing distribution.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "manifest/document/manifest.h"
#include "manifest/write/bundle.h"

namespace moepack::manifest {

// What a distribution looks like after `quality` is recorded in it.
struct RecordReport {
  Manifest manifest;
  std::string digest_before, digest;  // SHA-256 of distribution.json
  bool changed = false;               // false: the same was already recorded
  bool pulled = false;                // its signatures and its lock are for its previous state
  bool is_signed = false;             // kSignatureFile is of its previous state
  UpdatedReadme readme;               // what became of README.md
};

// Rewrites distribution.json of the directory `distribution` with `quality`, and README.md as far
// as nobody has edited it (UpdateReadme), and touches nothing else. Both are flushed under
// temporary names before the first is moved into place; if the second cannot be, the first is
// restored. A run killed between the two leaves a README.md that is newer than distribution.json;
// recording again fixes that. `expected` is the digest that distribution.json had when the
// evaluation began: kMismatch if it has changed.
Result<RecordReport> RecordQuality(const std::string& distribution, const QualityRecord& quality,
                                   const std::string& expected);

// SHA-256 of the bytes of distribution.json.
Result<std::string> ManifestFileDigest(const std::string& distribution);

}  // namespace moepack::manifest
