// The checks of `verify --against`, which need the source. Internal to manifest/.
#pragma once

#include <string>
#include <vector>

#include "libshard/pack/slice.h"
#include "manifest/verify/verify_rules.h"
#include "manifest/write/assets.h"

namespace moepack::manifest {

// verify_source.cc: compares the distribution with what it should hold according to the source.
inline constexpr const char* kSourceRules[] = {"source-model", "source-tensors", "source-headers",
                                               "source-bytes", "source-assets",  "source-claims"};
// Files of the source, open while their bytes are compared.
struct SourceFiles {
  std::vector<ByteSourcePtr> shards;  // same order as Checkpoint::files()
  std::vector<ByteSourcePtr> assets;
};
// verify_source_model.cc. Reads whole source files if the manifest has their SHA-256.
Status CheckSourceModel(const Manifest& manifest, const MoeModel& model, size_t jobs,
                        RuleFindings& findings);
// verify_claims.cc: names what the manifest says and the source cannot prove. An Error if the
// source's licence cannot be read.
Status ClaimUnproved(const Manifest& manifest, const MoeModel& model, RuleFindings& findings);
// True if the layers with experts are those of the source. If not, nothing can be made again.
bool SameLayers(const Manifest& manifest, const MoeModel& model);
// Fills CheckedFile::sources, with GGUF bundles only those of assets. An Error if a file of the
// source cannot be opened.
Result<SourceFiles> MatchSources(const Manifest& manifest, const MoeModel& model,
                                 std::vector<CheckedFile>& files, Findings& findings);

// verify_layout.cc: names, records and headers of the bundles against the files that the source
// gives.
struct LayoutSource {
  const std::vector<OutputFile>& files;
  bool compare_records = true;  // false: a finding already says that the tensors differ
};
Status CheckLayout(const SourceTree& tree, const std::vector<CheckedFile>& files,
                   const LayoutSource& source, Findings& findings);
// Checks that every asset of the source is there, and whether it has any.
void CheckAssetList(const Manifest& manifest, const std::vector<Asset>& assets,
                    RuleFindings& findings);

// verify_made_bytes.cc: makes the bytes of bundles again in memory and compares digests, of the
// tensors that are named here.
inline constexpr const char* kRefitBytesRule = "refit-bytes";
struct MadeAgain {
  const std::vector<OutputFile>& files;
  std::vector<SourceFile> sources;  // of the rows that `files` are made from
  bool of_source = false;           // tensors that are made from the source alone
  bool of_refit = false;            // derived ones
  // Names the tensors that a calibration encoded; null: none.
  const CalibratedRecord* calibrated = nullptr;
  bool of_calibration = false;  // these
};
Status CheckMadeBytes(const std::vector<CheckedFile>& files, const MadeAgain& again,
                      const VerifyOptions& options, VerifyReport& report);

}  // namespace moepack::manifest
