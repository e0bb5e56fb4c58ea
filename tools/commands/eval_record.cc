#include "tools/commands/eval_record.h"

#include "libshard/base/files/descriptor.h"
#include "libshard/base/text/text.h"
#include "manifest/write/output_path.h"
#include "manifest/write/record_quality.h"
#include "tools/base/output.h"

namespace moepack::cli {

Result<std::optional<std::string>> BeginRecording(bool record, const RuntimeArguments& arguments) {
  if (!record) return std::optional<std::string>();
  SHARD_TRY(const bool distribution,
            moepack::IsThere(fs::path(arguments.source) / manifest::kManifestFile));
  if (!distribution) {
    return Error{
        Code::kInvalidArgument,
        Cat("--record needs a distribution, and ", Quoted(arguments.source), " is not one"),
        "--record writes into distribution.json: give the directory that has one"};
  }
  if (!arguments.load.overlay || !arguments.load.overlay_version.empty()) {
    return Error{Code::kInvalidArgument,
                 "--record cannot be combined with --overlay or --no-overlay: it records the "
                 "distribution as nodes get it",
                 "leave out --overlay and --no-overlay"};
  }
  // Taken before the evaluation, which may last hours, and compared after it.
  SHARD_TRY(std::string digest, manifest::ManifestFileDigest(arguments.source));
  return std::optional(std::move(digest));
}

Status FinishRecording(const std::string& distribution, const std::string& begun,
                       const manifest::QualityRecord& quality) {
  SHARD_TRY(const manifest::RecordReport report,
            manifest::RecordQuality(distribution, quality, begun));
  if (!report.changed) {
    PrintMessage(Cat("this result is recorded in ", moepack::Shown(distribution),
                     "/distribution.json already"));
    return Ok();
  }
  const manifest::UpdatedReadme& readme = report.readme;
  PrintMessage(Cat("recorded in ", moepack::Shown(distribution), "/distribution.json",
                   readme.text ? " and README.md" : "", "; sha256:", report.digest_before,
                   " is now sha256:", report.digest,
                   readme.text && readme.edited ? "; your own text in README.md is kept" : ""));
  if (!readme.shows_changes)
    PrintWarnings({manifest::StaleReadmeWarning(Cat(distribution, "/", manifest::kReadmeFile))});
  if (report.is_signed) PrintWarnings({manifest::StaleSignatureWarning(distribution)});
  if (report.pulled) {
    PrintWarnings({Cat(distribution,
                       " was pulled: signatures are of what it was before, so publish and sign it "
                       "again")});
  }
  return Ok();
}

}  // namespace moepack::cli
