// Puts what `eval` measured into a distribution that is there.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// What a distribution looks like when `quality` is recorded in it.
struct RecordReport {
  Manifest manifest;
  std::string digest_before, digest;  // SHA-256 of distribution.json
  bool changed = false;               // false: the same was recorded before
  bool pulled = false;                // its signatures and its lock are of what it was before
};

// Writes distribution.json and README.md of the directory `distribution` again, with `quality`, and
// touches nothing else. Both are flushed under temporary names before the first takes its place; if
// the second cannot, the first is put back. A run that is killed between the two leaves a README.md
// that is newer than distribution.json; recording again mends that. `expected` is the digest that
// distribution.json had when the evaluation began: kMismatch when it is another one now.
Result<RecordReport> RecordQuality(const std::string& distribution, const QualityRecord& quality,
                                   const std::string& expected);

// SHA-256 of the bytes of distribution.json.
Result<std::string> ManifestFileDigest(const std::string& distribution);

}  // namespace moepack::manifest
