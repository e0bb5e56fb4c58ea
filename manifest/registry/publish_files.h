// Lays out a distribution as plain files for a host of git repositories, such as the Hugging Face
// Hub; `pull` reads them from there like from a registry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "manifest/registry/store_report.h"

namespace moepack::registry {

struct PublishFilesReport {
  struct File {
    std::string name;
    uint64_t bytes = 0;
    // "hardlink", "reflink", "copy" or, for a text of ours, "written"; "" in a dry run.
    std::string how = {};
  };
  std::vector<File> files;
  std::vector<std::string> absent;    // what an incomplete distribution lacks
  std::vector<std::string> warnings;  // about what was left on disk
  std::optional<uint32_t> group;      // the first that is there, for a command that pulls it
  uint64_t total_bytes() const;
};

// Files above this size go to Git LFS, whatever their name: the Hub accepts no larger ones in git.
inline constexpr uint64_t kMaxGitFile = 10'000'000;

// The text of .gitattributes: weights, binary files, and files above kMaxGitFile go to LFS.
std::string GitAttributes(const std::vector<PublishFilesReport::File>& files);

// Makes `out` with the files of the distribution, a README.md with front matter, and
// .gitattributes. Every file is checked against its SHA-256 on the way (kMismatch), and `out`
// appears completely or not at all. An existing `out` is kInvalidArgument without `force`, and so
// is an incomplete distribution without `allow_incomplete`.
Result<PublishFilesReport> PublishFiles(const std::string& distribution, const std::string& out,
                                        const PutOptions& options);

}  // namespace moepack::registry
