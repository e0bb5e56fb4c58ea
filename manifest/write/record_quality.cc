#include "manifest/write/record_quality.h"

#include <optional>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/manifest_write.h"
#include "manifest/document/read_back.h"
#include "manifest/write/output_path.h"

namespace moepack::manifest {
namespace {

constexpr uint64_t kMaxCardBytes = 64u << 20;

// No value if there is none, or none that can be read: then there is nothing to restore.
std::optional<std::string> CardOf(const InsideDirectory& directory) {
  Result<std::string> text = directory.ReadText(kReadmeFile, kMaxCardBytes);
  if (!text) return std::nullopt;
  return *std::move(text);
}

Status PutBack(const InsideDirectory& directory, const std::optional<std::string>& card) {
  if (card) return directory.WriteText(kReadmeFile, *card);
  return directory.Remove(kReadmeFile);
}

// The manifest comes last: it vouches for what was measured.
Status Replace(StagingDirectory& staging, const InsideDirectory& directory,
               const std::optional<std::string>& card, bool new_card) {
  if (new_card) SHARD_CHECK(staging.MoveInto(directory, {kReadmeFile}));
  const Status moved = staging.MoveInto(directory, {kManifestFile});
  if (moved || !new_card) return moved;
  const Status back = PutBack(directory, card);
  if (back) return moved;
  return Error{moved.error().code,
               Cat(moved.error().message, "; and ", kReadmeFile,
                   " could not be put back: ", back.error().message),
               "record again, which writes both files"};
}

Status CheckDigest(const std::string& distribution, const std::string& expected,
                   const std::string& found) {
  if (found == expected) return Ok();
  return Error{Code::kMismatch,
               Cat(distribution, "/", kManifestFile, ": SHA-256: expected ", expected,
                   " as when the evaluation began, found ", found),
               "another run has changed the distribution; evaluate it again"};
}

}  // namespace

Result<std::string> ManifestFileDigest(const std::string& distribution) {
  SHARD_TRY(const std::string text, ReadManifestText(LocalTree(distribution)));
  return Sha256Hex(text);
}

Result<RecordReport> RecordQuality(const std::string& distribution, const QualityRecord& quality,
                                   const std::string& expected) {
  std::error_code error;
  const fs::path target = CanonicalPath(distribution, error);
  if (error) {
    return Error{Code::kNotFound, Cat(distribution, ": expected a distribution, found nothing")};
  }
  // Nobody else adds parts meanwhile.
  SHARD_TRY(StagingDirectory staging, StagingDirectory::Open(target, OwnOutput()));
  SHARD_TRY(const std::string before, ReadManifestText(LocalTree(target.string())));
  RecordReport report;
  report.digest_before = Sha256Hex(before);
  // Under the lock, so that the figures are of the distribution that gets them.
  SHARD_CHECK(CheckDigest(distribution, expected, report.digest_before));
  SHARD_TRY(const Manifest parsed, ParseManifest(Cat(distribution, "/", kManifestFile), before));
  report.manifest = parsed;
  report.manifest.quality = quality;
  SHARD_CHECK(ReadBackManifest(report.manifest));
  report.digest = ManifestDigest(report.manifest);
  SHARD_TRY(const InsideDirectory directory, InsideDirectory::Open(target));
  SHARD_TRY(const InsideDirectory::Kind lock, directory.KindOf(kPullLockFile));
  report.pulled = lock != InsideDirectory::Kind::kNothing;
  report.is_signed = HasSignature(directory);
  const std::optional<std::string> card = CardOf(directory);
  report.readme = UpdateReadme(directory, parsed, report.manifest);
  const std::optional<std::string>& new_card = report.readme.text;
  report.changed = report.digest != report.digest_before;
  if (!report.changed && (!new_card || card == new_card)) return report;
  SHARD_CHECK(staging.Begin(Cat("record ", report.digest)));
  if (new_card) SHARD_CHECK(staging.WriteText(kReadmeFile, *new_card));
  staging.Expect(kManifestFile);
  SHARD_CHECK(WriteManifestFile(staging.files(), report.manifest));
  SHARD_CHECK(Replace(staging, directory, card, new_card.has_value()));
  SHARD_CHECK(staging.Discard());
  return report;
}

}  // namespace moepack::manifest
