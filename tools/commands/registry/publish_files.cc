#include "tools/commands/registry/publish_files.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/pack_progress.h"
#include "tools/base/progress.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

using registry::PublishFilesReport;

// The user replaces "owner/name" by the repository's name.
std::string UploadCommand(const std::string& out) {
  return ShellCommand({"hf", "upload", "owner/name", PathArgument(out)});
}

std::string PullFilesCommand(uint32_t of_group) {
  const std::string group = Cat(of_group);
  return ShellCommand(
      {"moepack", "pull", "hf://owner/name", "--group", group, "-o", "pulled-" + group});
}

std::string FilesReportText(const std::string& out, const PublishFilesReport& report, bool dry_run,
                            double seconds) {
  Table files({"file", ">bytes", "how"});
  for (const PublishFilesReport::File& file : report.files)
    files.Row({file.name, FormatCount(file.bytes), file.how});
  std::string text = Cat(files.Render(), "\n", dry_run ? "would lay out " : "laid out ",
                         ExactBytes(report.total_bytes()), " in ", Shown(out));
  if (!dry_run) text += Cat(" in ", FormatElapsed(seconds));
  text += "\n";
  if (!report.absent.empty())
    text += Cat("not complete; absent: ", moepack::Join(report.absent, ", "), "\n");
  if (dry_run) return text;
  text += Cat("\nnext, with the name of your repository:\n  ", UploadCommand(out), "\n");
  if (report.group) text += Cat("and then every node:\n  ", PullFilesCommand(*report.group), "\n");
  return text;
}

Json FilesReportJson(const std::string& distribution, const std::string& out,
                     const PublishFilesReport& report, bool dry_run) {
  Json files = Json::array();
  for (const PublishFilesReport::File& file : report.files) {
    files.push_back({{"file", file.name}, {"bytes", file.bytes}});
    if (!file.how.empty()) files.back()["how"] = file.how;
  }
  Json document = {{"distribution", distribution}, {"directory", out},
                   {"dry_run", dry_run},           {"bytes", report.total_bytes()},
                   {"files", std::move(files)},    {"absent", report.absent}};
  if (!dry_run) document["upload_command"] = UploadCommand(out);
  return document;
}

}  // namespace

Result<int> RunPublishFiles(const std::string& distribution, const std::string& out,
                            const registry::PublishFilesOptions& options, bool json) {
  Progress progress("publishing");
  registry::PublishFilesOptions shown = options;
  shown.pack.progress = ShowPacking(progress);
  SHARD_TRY(const PublishFilesReport report, registry::PublishFiles(distribution, out, shown));
  const double seconds = progress.seconds();
  progress.Clear();
  PrintWarnings(report.warnings);
  SHARD_CHECK(json ? WriteJsonResult(FilesReportJson(distribution, out, report, options.dry_run))
                   : WriteResult(FilesReportText(out, report, options.dry_run, seconds)));
  return kExitDone;
}

}  // namespace moepack::cli
