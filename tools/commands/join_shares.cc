#include "tools/commands/join_shares.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "manifest/document/manifest_write.h"
#include "manifest/tasks/refit_join.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/commands/profile_task.h"

namespace moepack::cli {
namespace join_shares {
namespace {

Json FilesJson(const std::vector<manifest::JoinReport::File>& files) {
  Json out = Json::array();
  for (const manifest::JoinReport::File& file : files)
    out.push_back({{"file", file.name}, {"bytes", file.bytes}});
  return out;
}

std::string RefitText(const SharesToJoin& shares, const manifest::RefitJoinReport& report,
                      double seconds) {
  const char* const wrote = shares.join.dry_run ? "would write " : "wrote ";
  std::string text =
      report.was_there
          ? Cat("the refit store is there already: ", Shown(report.store), "\n")
          : Cat(wrote, ExactBytes(report.total_bytes()),
                shares.join.dry_run ? " and an importance matrix of " : " of ",
                Plural(report.parts, "part"), " to the refit store ", Shown(report.store), "\n");
  if (!report.distribution) return text;
  const manifest::JoinReport& distribution = *report.distribution;
  text += Cat(wrote, ExactBytes(distribution.total_bytes()), " to ", Shown(shares.out));
  if (!shares.join.dry_run) text += Cat(" in ", FormatElapsed(seconds));
  return Cat(text,
             distribution.absent.empty() ? "; all parts are there"
                                         : Cat("; absent: ", Join(distribution.absent, ", ")),
             "\ndistribution.json sha256:", ManifestDigest(distribution.manifest), "\n");
}

Json RefitJson(const SharesToJoin& shares, const manifest::RefitJoinReport& report) {
  Json document = {{"output", shares.out},
                   {"dry_run", shares.join.dry_run},
                   {"refit",
                    {{"store", report.store},
                     {"parts", report.parts},
                     {"was_there", report.was_there},
                     {"files", FilesJson(report.files)},
                     {"bytes", report.total_bytes()}}}};
  if (!report.distribution) return document;
  document["complete"] = report.distribution->manifest.complete;
  document["absent"] = report.distribution->absent;
  document["manifest_sha256"] = ManifestDigest(report.distribution->manifest);
  document["files"] = FilesJson(report.distribution->files);
  document["bytes"] = report.distribution->total_bytes();
  return document;
}

Status JoinRefitParts(const SharesToJoin& shares, const manifest::RefitParts& parts) {
  Progress progress("joining");
  manifest::JoinOptions options = shares.join;
  options.link = shares.link.value_or(manifest::LinkKind::kAuto);
  options.pack.progress = progress.Shows();
  SHARD_TRY(const manifest::RefitJoinReport report,
            manifest::JoinRefits(parts, shares.out, options));
  PrintWarnings(report.warnings);
  if (report.distribution) PrintWarnings(report.distribution->warnings);
  return shares.json ? WriteJsonResult(RefitJson(shares, report))
                     : WriteReport(RefitText(shares, report, progress.seconds()));
}

}  // namespace
}  // namespace join_shares

Result<bool> JoinShares(const SharesToJoin& shares) {
  SHARD_TRY(const manifest::RefitParts refits, manifest::FindRefitParts(shares.inputs));
  if (!refits.stores.empty()) {
    SHARD_CHECK(join_shares::JoinRefitParts(shares, refits));
    return true;
  }
  SHARD_TRY(const std::vector<std::string> profiles, FindProfileTasks(shares.inputs));
  if (profiles.empty()) return false;
  SHARD_CHECK(JoinProfileTasks(profiles, shares));
  return true;
}

}  // namespace moepack::cli
