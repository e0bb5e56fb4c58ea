#include "libshard/format/side_files.h"

#include <vector>

#include "libshard/base/files/beside_weights.h"
#include "libshard/base/files/file.h"
#include "libshard/base/parallel.h"

namespace moepack {
namespace {

// For trees where each check is a request.
constexpr size_t kChecksAtOnce = 8;

// No value for a file that is missing or cannot be opened; the code that reads it reports that.
std::optional<std::string> IdentityOf(const SourceTree& tree, const std::string& file) {
  const auto source = tree.Open(file);
  return source ? std::optional((*source)->identity()) : std::nullopt;
}

std::optional<std::string> IdentityAt(const std::string& path) {
  const auto file = InputFile::Open(path);
  return file ? std::optional(file->identity()) : std::nullopt;
}

}  // namespace

SideFiles SideFiles::Note(const SourceTreePtr& tree, const std::string& config_file) {
  SideFiles noted;
  noted.tree_ = tree;
  noted.config_file_ = config_file;
  if (!config_file.empty()) noted.config_ = IdentityAt(config_file);
  std::vector<std::string> names;
  for (const BesideWeights& beside : kBesideWeights) {
    if (beside.noted) names.emplace_back(beside.name);
  }
  const auto indexes = tree->List("", ".index.json");
  if (indexes) names.insert(names.end(), indexes->begin(), indexes->end());
  tree->Expect(names);
  for (const std::string& name : names) noted.files_[name] = IdentityOf(*tree, name);
  return noted;
}

Status SideFiles::CheckUnchanged() const {
  const std::vector<std::pair<std::string, Identity>> files(files_.begin(), files_.end());
  SHARD_CHECK(
      ParallelFor(files.size(), tree_->traffic() ? kChecksAtOnce : 1, [&](size_t i) -> Status {
        const auto& [name, identity] = files[i];
        const auto source = tree_->Open(name);
        const Identity now = source ? std::optional((*source)->identity()) : std::nullopt;
        if (now != identity) return ChangedWhileRead(tree_->NameOf(name));
        // A tree may keep returning the source that it opened first.
        return source ? (*source)->CheckUnchanged() : Ok();
      }));
  if (config_file_.empty() || IdentityAt(config_file_) == config_) return Ok();
  return ChangedWhileRead(config_file_);
}

}  // namespace moepack
