// Verifies a distribution: structure, semantics and digests, and every byte against its source.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

enum class Severity : uint8_t {
  kNote,
  kClaim,  // what the manifest says and the comparison with the source could not prove
  kWarning,
  kError,
};

struct Finding {
  Severity severity = Severity::kError;
  std::string
      rule;  // stable name of the check: "expert-accounted", "file-sha256", "tensor-xxh3", ...
  std::string file;     // relative to the distribution; "" if none
  std::string tensor;   // "" if none
  std::string message;  // "<thing>: expected <x>, found <y>"
};

// The parts that `pull` put into a directory, as its pulled.json says.
struct PulledParts {
  std::string file;       // pulled.json, for messages
  std::string reference;  // where they came from
  std::vector<uint32_t> groups;
  std::optional<std::string> overlay;  // its version; "" for none in the set, no value for none
};

struct VerifyOptions {
  std::optional<moepack::Source> distribution;  // opened; no value: a directory on this machine
  bool whole = false;   // a distribution that says it lacks parts is an error
  bool digests = true;  // hash every file; false: structure and semantics only
  std::string against;  // the source checkpoint; "" for none
  std::optional<moepack::Source> against_source;  // the same, opened; none: a path of this machine
  std::string family_file;                        // for the source, as in ModelOptions
  std::string config_file;
  std::vector<std::string> imatrix_files;  // those with which the GGUF bundles were made
  std::string pre;                         // ConvertOptions::pre, as when it was written
  // With `against`: the refit store that derived tensors are made again from, so that their bytes
  // are compared too. "": they are not compared.
  std::string refit_store;
  // The same for tensors that were encoded with error feedback.
  std::string calibrated_store;
  std::string digest;            // SHA-256 that distribution.json must have; "" for any
  std::vector<uint32_t> groups;  // only these; the others may be missing. Empty: all
  // Only this version of the overlay; the others may be missing. "": the current one with `groups`,
  // otherwise all. kNotFound for one that the manifest lacks.
  std::string overlay;
  bool with_overlay = true;  // false: overlays may be missing
  // Without `groups` and `overlay`: parts that were not pulled may be missing, and a note names
  // those that are.
  std::optional<PulledParts> pulled;
  bool cold = false;  // read past the page cache
  // The share of each large file that is read, per mille, in whole tensors (sampled_tensors.h).
  // 1000: everything. A different seed chooses different tensors.
  uint32_t sample = 1000;
  uint64_t seed = 0;
  // Notes of verified files, to resume where an earlier run was stopped (proved_files.h); they are
  // removed when everything has passed. "" for none.
  std::string resume_file;
  size_t jobs = 0;
  OnProgress progress;
};

struct VerifyReport {
  std::vector<Finding> findings;
  std::vector<std::string> rules;  // every rule that was checked, in order
  uint64_t files = 0, tensors = 0, bytes = 0, source_bytes = 0;
  bool cold = false;            // as in the options
  uint64_t cold_bytes = 0;      // the part of `bytes` that was read past the page cache
  std::string manifest_sha256;  // of distribution.json
  bool passed() const;          // no finding of kError
};

// Returns an Error only if there is nothing to verify (no manifest, an unreadable source).
// Everything wrong with the distribution is a finding.
Result<VerifyReport> VerifyDistribution(const std::string& directory, const VerifyOptions& options);

// A distribution on this machine whose manifest has been read.
struct OpenedDistribution {
  std::string directory;
  SourceTreePtr tree;
  std::string text;  // of distribution.json
  Manifest manifest;
};
Result<OpenedDistribution> OpenDistribution(const std::string& directory);
// Does what VerifyDistribution does, without reading the manifest again.
Result<VerifyReport> VerifyOpened(const OpenedDistribution& opened, const VerifyOptions& options);

}  // namespace moepack::manifest
