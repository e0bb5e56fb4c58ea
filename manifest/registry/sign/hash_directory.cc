#include "manifest/registry/sign/hash_directory.h"

#include <algorithm>

#include "libshard/base/digest.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/publish_inside.h"
#include "libshard/base/files/scan_file.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

// The directories that the listing visited must contain the files in them.
Status CheckPlainFile(const InsideDirectory& directory, const std::string& name) {
  const std::string where = (directory.path() / name).string();
  if (!IsSafeRelativePath(name))
    return Error{Code::kUnsupported, Cat(Shown(where),
                                         ": name: expected UTF-8 without control "
                                         "characters and backslashes")};
  SHARD_TRY(const InsideDirectory::Kind kind, directory.KindOf(name));
  if (kind == InsideDirectory::Kind::kFile) return Ok();
  return Error{Code::kUnsupported,
               Cat(Shown(where), ": expected a file, found ",
                   kind == InsideDirectory::Kind::kLink ? "a link" : "something else"),
               "`moepack assemble --link copy` or `--link hardlink` makes a node without links"};
}

// What is in the lost+found of a file system nobody but its administrator can read, so no program
// reads a model there; anything else that is there counts.
Result<std::vector<std::string>> ListAllFiles(const InsideDirectory& directory) {
  SHARD_TRY(const std::vector<InsideDirectory::Entry> entries, directory.List());
  std::vector<std::string> names;
  for (const InsideDirectory::Entry& entry : entries) {
    if (entry.kind != InsideDirectory::Kind::kDirectory) {
      names.push_back(entry.name);
      continue;
    }
    const auto child = directory.OpenDirectory(entry.name);
    if (!child) {
      SHARD_TRY(const bool beside, IsBesideOutput(directory.path(), entry));
      if (beside && !IsUnfinishedRun(entry)) continue;
      return child.error();
    }
    SHARD_TRY(const std::vector<std::string> below, child->ListFiles());
    for (const std::string& name : below) names.push_back(Cat(entry.name, "/", name));
  }
  return names;
}

Result<std::vector<std::string>> NamesToHash(const std::string& directory,
                                             const std::vector<std::string>& ignored) {
  SHARD_TRY(const InsideDirectory inside, InsideDirectory::Open(directory));
  SHARD_TRY(std::vector<std::string> names, ListAllFiles(inside));
  std::erase_if(names, [&](const std::string& name) { return IsIgnored(name, ignored); });
  for (const std::string& name : names) SHARD_CHECK(CheckPlainFile(inside, name));
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return Split(a, '/') < Split(b, '/');
  });
  return names;
}

}  // namespace

bool IsIgnored(const std::string& name, const std::vector<std::string>& ignored) {
  return std::any_of(ignored.begin(), ignored.end(), [&](const std::string& one) {
    return name == one || name.starts_with(Cat(one, "/"));
  });
}

Result<HashedDirectory> HashDirectory(const std::string& directory,
                                      const std::vector<std::string>& ignored,
                                      const HashOptions& options) {
  SHARD_TRY(const std::vector<std::string> names, NamesToHash(directory, ignored));
  const LocalTree tree(directory);
  HashedDirectory hashed;
  for (const std::string& name : names) {
    SHARD_TRY(const ByteSourcePtr file, tree.Open(name));
    hashed.bytes += file->size();
  }
  ProgressCounter progress(options.progress, hashed.bytes);
  hashed.files.resize(names.size());
  const size_t jobs = ThreadsForFiles(options.jobs);
  const Status done = ParallelFor(names.size(), jobs, [&](size_t i) -> Status {
    SHARD_TRY(const ByteSourcePtr file, tree.Open(names[i]));
    SHARD_TRY(std::string sha256, Sha256Of(*file, [&](uint64_t bytes) { progress.Add(bytes); }));
    SHARD_CHECK(file->CheckUnchanged());
    hashed.files[i] = {names[i], std::move(sha256)};
    return Ok();
  });
  if (!done) return done.error();
  return hashed;
}

std::string RootDigest(const std::vector<FileDigest>& files) {
  std::string bytes;
  for (const FileDigest& file : files) {
    for (size_t i = 0; i + 1 < file.sha256.size(); i += 2)
      bytes += static_cast<char>(std::stoi(file.sha256.substr(i, 2), nullptr, 16));
  }
  return Sha256Hex(bytes);
}

}  // namespace moepack::registry
