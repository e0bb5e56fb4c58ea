#include "manifest/write/place_files.h"

#include <map>

#include "libshard/base/parallel.h"
#include "libshard/base/progress.h"
#include "libshard/base/text/text.h"
#include "manifest/document/corrupt.h"
#include "manifest/write/output_path.h"
#include "manifest/write/stated_file.h"

namespace moepack::manifest {
namespace {

fs::path PathOf(const JoinedFile& file) { return *file.tree->LocalPath(file.file); }

Result<LinkKind> PlaceFile(const JoinedFile& file, StagingDirectory& staging, LinkOptions options) {
  staging.Expect(file.file);
  SHARD_CHECK(staging.files().Remove(file.file));  // left by an earlier run that was killed
  const fs::path name(file.file);
  const std::string folder = name.parent_path().string();
  options.home = staging.target() / folder;
  if (folder.empty()) return LinkFile(PathOf(file), staging.files(), file.file, options);
  SHARD_TRY(const InsideDirectory directory, staging.files().MakeDirectories(folder));
  return LinkFile(PathOf(file), directory, name.filename().string(), options);
}

}  // namespace

Status CheckSizes(const std::vector<JoinedFile>& files) {
  for (const JoinedFile& file : files) {
    SHARD_TRY(const ByteSourcePtr opened, file.tree->Open(file.file));
    if (opened->size() == file.size) continue;
    return NameCorrupt(file.from, Error{Code::kMismatch,
                                        Cat(opened->name(), ": file size: expected ", file.size,
                                            " bytes, found ", opened->size()),
                                        kCorruptHint});
  }
  return Ok();
}

Status CheckOutsideInputs(const std::vector<std::string>& inputs,
                          const std::vector<JoinedFile>& files, const std::string& out) {
  std::vector<fs::path> paths;
  for (const JoinedFile& file : files) paths.push_back(PathOf(file));
  for (const std::string& input : inputs) {
    SHARD_CHECK(CheckOutsideDistribution(out, input, paths));
  }
  return Ok();
}

Result<std::vector<LinkKind>> PlaceFiles(const std::vector<JoinedFile>& files, LinkKind link,
                                         const PackOptions& options, StagingDirectory& staging) {
  uint64_t total = 0;
  for (const JoinedFile& file : files) total += file.size;
  ProgressCounter progress(options.progress, total);
  const auto copied = [&](uint64_t bytes) { progress.Add(bytes); };
  std::vector<LinkKind> links;
  for (const JoinedFile& file : files) {
    SHARD_CHECK(CheckInterrupt());
    // Assets are small, so nothing is gained by sharing them with the input.
    const LinkKind kind = file.asset ? LinkKind::kCopy : link;
    SHARD_TRY(const LinkKind used, PlaceFile(file, staging, {kind, {}, copied}));
    if (used != LinkKind::kCopy) progress.Add(file.size);
    links.push_back(used);
  }
  return links;
}

Status CheckPlaced(const std::vector<JoinedFile>& files, const PackOptions& options,
                   const fs::path& staged) {
  std::map<std::string, std::vector<StatedFile>> by_input;
  for (const JoinedFile& file : files) {
    by_input[file.from].push_back(
        {file.tree, file.file, file.size, file.sha256, staged / file.file});
  }
  for (const auto& [input, stated] : by_input) {
    Status checked = CheckFileDigests(stated, options);
    if (!checked) return NameCorrupt(input, std::move(checked).error());
  }
  return Ok();
}

}  // namespace moepack::manifest
