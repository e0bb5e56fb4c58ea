// The checks of `verify`, each under its stable name. Internal to manifest/.
#pragma once

#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/model/model.h"
#include "manifest/document/parts.h"
#include "manifest/verify/verify.h"

namespace moepack::manifest {

using Findings = std::vector<Finding>;

// Sorts findings by rule, and keeps the first twenty of each rule and the number of the others.
void LimitFindings(VerifyReport& report);

// Records rules as checked.
template <size_t N>
void AddRules(const char* const (&rules)[N], VerifyReport& report) {
  report.rules.insert(report.rules.end(), std::begin(rules), std::end(rules));
}

// Adds findings of one rule.
class RuleFindings {
 public:
  RuleFindings(const char* rule, Findings& out) : rule_(rule), out_(out) {}
  void Error(std::string message, std::string file = {}, std::string tensor = {}) {
    Add(Severity::kError, std::move(message), {std::move(file), std::move(tensor)});
  }
  // `message` without `where`, with which it begins, because a finding names its file itself.
  void Unreadable(const std::string& message, const std::string& where, const std::string& file) {
    const std::string prefix = where + ": ";
    Error(message.starts_with(prefix) ? message.substr(prefix.size()) : message, file);
  }
  void Warning(std::string message, std::string file = {}) {
    Add(Severity::kWarning, std::move(message), {std::move(file), ""});
  }
  void Note(std::string message) { Add(Severity::kNote, std::move(message), {}); }
  void Claim(std::string message) { Add(Severity::kClaim, std::move(message), {}); }

  // `place` is file and tensor.
  void Add(Severity severity, std::string message, std::pair<std::string, std::string> place) {
    out_.push_back(
        {severity, rule_, std::move(place.first), std::move(place.second), std::move(message)});
  }

 private:
  const char* rule_;
  Findings& out_;
};

// A rule that needs only the manifest.
struct StructureRule {
  const char* name;
  void (*check)(const Manifest& manifest, RuleFindings& findings);
};
std::span<const StructureRule> PlanRules();    // verify_plan.cc
std::span<const StructureRule> BundleRules();  // verify_bundles.cc

// verify_refit.cc: the rule refit-derived, for manifests with a refit. Adds a note saying how much
// is derived.
void CheckRefit(const Manifest& manifest, VerifyReport& report);

// "layer 3", "layer none".
std::string LayerText(std::optional<uint32_t> layer);

// Where the bytes of one tensor (or asset) come from: rows of `row` bytes from `offset` on, and in
// each row the slices `ids`, each `slice` bytes long. A whole tensor is one row of one slice. This
// is not a list of ranges, because an inner expert axis would give millions of them.
struct SourceSlices {
  const ByteSource* file = nullptr;  // null: nothing to compare with
  uint64_t offset = 0, row = 0, slice = 0;
  ExpertIds ids = {0};
  ExpertIds derived = {};  // those of `ids` whose bytes are not the source's and are not compared
};

// One file of the distribution: a bundle or an asset.
struct CheckedFile {
  std::string file;
  uint64_t size = 0;
  std::string sha256;
  const BundleRecord* bundle = nullptr;  // null for an asset
  bool readable = true;                  // false: a finding already says why
  // With --against: one entry per tensor of the bundle (in its order), one for an asset.
  std::vector<SourceSlices> sources;
};

// verify_files.cc: presence, links, stray files, sizes.
inline constexpr const char* kDirectoryRules[] = {"files-present", "no-links-outside",
                                                  "no-stray-files", "file-size", "file-readable"};
// What a directory may contain besides the files that are checked.
struct DirectoryScope {
  std::vector<std::string> own;  // names that are not stray
  // links that lead out of the directory; their digests are checked
  bool files_may_be_links = false;
  Severity (*severity_of_stray)(std::string_view name) = nullptr;
};
void CheckDirectory(const std::string& directory, const DirectoryScope& scope,
                    std::vector<CheckedFile>& files, Findings& findings);

// Checks a distribution in the same way, and the headers of its files. A tree on another machine
// cannot list everything that it holds: only kFarFileRules are checked for it.
inline constexpr const char* kFileRules[] = {"files-present", "no-links-outside", "no-stray-files",
                                             "file-size",     "container-header", "file-readable"};
inline constexpr const char* kFarFileRules[] = {"files-present", "file-size", "container-header",
                                                "file-readable"};
Status CheckFiles(const SourceTree& tree, const Manifest& manifest, std::vector<CheckedFile>& files,
                  Findings& findings);

// verify_container.cc: compares the header of one bundle with the manifest. An Error if it cannot
// be read.
Status CheckContainer(const SourceTree& tree, const Manifest& manifest, const BundleRecord& bundle,
                      RuleFindings& findings);

// verify_bytes.cc: reads every readable file of a tree once; hashes it, and compares it with its
// sources.
inline constexpr const char* kDigestRules[] = {"file-sha256", "tensor-xxh3", "assets-sha256"};
Status CheckBytes(const SourceTree& tree, const std::vector<CheckedFile>& files,
                  const VerifyOptions& options, VerifyReport& report);

// verify_against.cc: checks everything against the source. An Error if the source cannot be read or
// converted, or an importance matrix is missing.
Status CheckAgainst(const Manifest& manifest, const SourceTree& tree,
                    std::vector<CheckedFile>& files, const VerifyOptions& options,
                    VerifyReport& report);

}  // namespace moepack::manifest
