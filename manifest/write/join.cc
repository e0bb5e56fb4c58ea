#include "manifest/write/join.h"

#include <map>
#include <optional>
#include <system_error>

#include "libshard/base/byte_progress.h"
#include "libshard/base/parallel.h"
#include "libshard/base/staging.h"
#include "libshard/base/text.h"
#include "manifest/document/damaged.h"
#include "manifest/document/manifest_write.h"
#include "manifest/document/parts.h"
#include "manifest/document/read_back.h"
#include "manifest/write/bundle.h"
#include "manifest/write/join_parts.h"
#include "manifest/write/output_path.h"
#include "manifest/write/promised_file.h"

namespace moepack::manifest {
namespace {

namespace fs = moepack::fs;

constexpr const char* kReadmeFile = "README.md";

fs::path PathOf(const JoinedFile& file) { return *file.tree->LocalPath(file.file); }

// Opening a file through its tree refuses links that lead out of the input.
Status CheckSizes(const std::vector<JoinedFile>& files) {
  for (const JoinedFile& file : files) {
    SHARD_TRY(const ByteSourcePtr opened, file.tree->Open(file.file));
    if (opened->size() == file.size) continue;
    return NameDamaged(file.from, Error{Code::kMismatch,
                                        Cat(opened->name(), ": file size: expected ", file.size,
                                            " bytes, found ", opened->size()),
                                        kDamagedHint});
  }
  return Ok();
}

Status CheckOutput(const std::vector<std::string>& inputs, const std::vector<JoinedFile>& files,
                   const std::string& out) {
  std::vector<fs::path> paths;
  for (const JoinedFile& file : files) paths.push_back(PathOf(file));
  for (const std::string& input : inputs) {
    SHARD_CHECK(CheckOutsideDistribution(out, input, paths));
  }
  return Ok();
}

uint64_t ManifestBytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  static_cast<void>(StreamManifest(manifest, [&](std::string_view text) {
                      bytes += text.size();
                      return Ok();
                    }).has_value());
  return bytes;
}

JoinReport Describe(JoinedParts& parts) {
  JoinReport report;
  for (const JoinedFile& file : parts.files) {
    report.files.push_back({file.file, file.size, file.from});
  }
  report.files.push_back({kReadmeFile, DistributionReadme(parts.manifest).size()});
  report.files.push_back({kManifestFile, ManifestBytes(parts.manifest)});
  report.absent = AbsentWords(parts.manifest);
  report.manifest = std::move(parts.manifest);
  return report;
}

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

Status PlaceFiles(const std::vector<JoinedFile>& files, const JoinOptions& options,
                  StagingDirectory& staging, JoinReport& report) {
  uint64_t total = 0;
  for (const JoinedFile& file : files) total += file.size;
  ByteProgress progress(CheckingReport(options.pack), total);
  const auto copied = [&](uint64_t bytes) { progress.Add(bytes); };
  for (size_t i = 0; i < files.size(); ++i) {
    SHARD_CHECK(CheckInterrupt());
    const LinkKind kind = files[i].asset ? LinkKind::kCopy : options.link;
    SHARD_TRY(const LinkKind used, PlaceFile(files[i], staging, {kind, {}, copied}));
    if (used != LinkKind::kCopy) progress.Add(files[i].size);
    report.files[i].link = LinkName(used);
  }
  return Ok();
}

// Reads what is in the staged directory now, so that copies are checked and not their sources.
Status CheckPlaced(const std::vector<JoinedFile>& files, const JoinOptions& options,
                   const fs::path& staged) {
  std::map<std::string, std::vector<PromisedFile>> by_input;
  for (const JoinedFile& file : files) {
    by_input[file.from].push_back(
        {file.tree, file.file, file.size, file.sha256, staged / file.file});
  }
  for (const auto& [input, promised] : by_input) {
    Status checked = CheckFileDigests(promised, options.pack);
    if (!checked) return NameDamaged(input, std::move(checked).error());
  }
  return Ok();
}

}  // namespace

uint64_t JoinReport::total_bytes() const {
  uint64_t total = 0;
  for (const File& file : files) total += file.bytes;
  return total;
}

Result<JoinReport> JoinDistributions(const std::vector<std::string>& inputs, const std::string& out,
                                     const JoinOptions& options) {
  if (inputs.size() < 2) {
    return Error{Code::kInvalidArgument,
                 Cat("distributions to join: expected two or more, found ", inputs.size())};
  }
  SHARD_CHECK(CheckOutput(inputs, {}, out));
  SHARD_TRY(JoinedParts parts, JoinParts(inputs));
  SHARD_CHECK(CheckOutput(inputs, parts.files, out));
  SHARD_CHECK(CheckSizes(parts.files));
  SHARD_CHECK(ReadBackManifest(parts.manifest));
  std::error_code error;
  if (fs::exists(fs::symlink_status(out, error))) {
    SHARD_CHECK(CheckReplaceable(out, options.force || options.dry_run));
  }
  JoinReport report = Describe(parts);
  if (options.dry_run) return report;

  const std::string identity = ManifestDigest(report.manifest);
  SHARD_TRY(StagingDirectory staging, StagingDirectory::Start(out, identity, OwnOutput()));
  SHARD_CHECK(PlaceFiles(parts.files, options, staging, report));
  SHARD_CHECK(CheckPlaced(parts.files, options, staging.path()));
  SHARD_CHECK(staging.WriteText(kReadmeFile, DistributionReadme(report.manifest)));
  staging.Expect(kManifestFile);
  SHARD_CHECK(WriteManifestFile(staging.files(), report.manifest));
  SHARD_CHECK(staging.Publish(options.force));
  report.warnings = staging.warnings();
  return report;
}

}  // namespace moepack::manifest
