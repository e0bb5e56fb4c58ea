#include "manifest/write/join.h"

#include "libshard/base/files/staging.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest_write.h"
#include "manifest/document/parts.h"
#include "manifest/document/read_back.h"
#include "manifest/write/bundle.h"
#include "manifest/write/join_parts.h"
#include "manifest/write/output_path.h"
#include "manifest/write/place_files.h"

namespace moepack::manifest {
namespace {

namespace fs = moepack::fs;

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

}  // namespace

uint64_t JoinReport::total_bytes() const {
  uint64_t total = 0;
  for (const File& file : files) total += file.bytes;
  return total;
}

Result<JoinReport> JoinDistributions(const std::vector<std::string>& inputs, const std::string& out,
                                     const JoinOptions& options) {
  SHARD_CHECK(CheckOutsideInputs(inputs, {}, out));
  SHARD_TRY(JoinedParts parts, JoinParts(inputs));
  if (inputs.size() < 2 && !options.alone) {
    return Error{Code::kInvalidArgument,
                 Cat("distributions to join: expected two or more, found ", inputs.size())};
  }
  SHARD_CHECK(CheckOutsideInputs(inputs, parts.files, out));
  SHARD_CHECK(CheckSizes(parts.files));
  SHARD_CHECK(ReadBackManifest(parts.manifest));
  SHARD_CHECK(CheckReplaceable(out, options.force || options.dry_run));
  JoinReport report = Describe(parts);
  if (options.dry_run) return report;

  const std::string identity = ManifestDigest(report.manifest);
  SHARD_TRY(StagingDirectory staging, StagingDirectory::Start(out, identity, OwnOutput()));
  SHARD_TRY(const std::vector<LinkKind> links,
            PlaceFiles(parts.files, options.link, options.pack, staging));
  for (size_t i = 0; i < links.size(); ++i) report.files[i].link = LinkName(links[i]);
  SHARD_CHECK(CheckPlaced(parts.files, options.pack, staging.path()));
  SHARD_CHECK(staging.WriteText(kReadmeFile, DistributionReadme(report.manifest)));
  staging.Expect(kManifestFile);
  SHARD_CHECK(WriteManifestFile(staging.files(), report.manifest));
  SHARD_CHECK(staging.Publish(options.force));
  report.warnings = staging.warnings();
  return report;
}

}  // namespace moepack::manifest
