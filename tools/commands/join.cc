#include "manifest/write/join.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest_write.h"
#include "manifest/tasks/task_join.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/commands/join_shares.h"
#include "tools/options/link_option.h"
#include "tools/options/options.h"
#include "tools/options/output_file.h"
#include "tools/options/source.h"

namespace moepack::cli {
namespace join_command {
namespace {

struct Arguments {
  std::vector<std::string> distributions;
  std::string out;
  std::optional<manifest::LinkKind> link;
  manifest::JoinOptions join;
  bool json = false;
};

// Says which parts nobody made, and how to make them.
std::string AbsentText(const std::vector<std::string>& absent) {
  return absent.empty() ? "all parts are there"
                        : Cat("not complete; absent: ", moepack::Join(absent, ", "));
}

std::string HowToComplete(const Arguments& arguments, const manifest::JoinReport& report) {
  if (report.absent.empty()) return "";
  return Cat("to make what is absent, repeat the shard-experts run of another part with --only ",
             moepack::Join(report.absent, ","), ": with -o ", Shown(arguments.out),
             " it adds to this distribution, with another directory it makes one to join\n");
}

std::string ReportLine(const Arguments& arguments, const manifest::JoinReport& report,
                       double seconds) {
  const bool dry_run = arguments.join.dry_run;
  return Cat(dry_run ? "would write " : "wrote ", ExactBytes(report.total_bytes()), " to ",
             Shown(arguments.out), dry_run ? "" : Cat(" in ", FormatElapsed(seconds)), "; ",
             AbsentText(report.absent));
}

std::string ReportText(const Arguments& arguments, const manifest::JoinReport& report,
                       double seconds) {
  Table table({"file", ">bytes", "how", "from"});
  for (const manifest::JoinReport::File& file : report.files) {
    table.Row({file.name, FormatCount(file.bytes), file.link, file.from});
  }
  return Cat(table.Render(), "\n", ReportLine(arguments, report, seconds), "\n",
             HowToComplete(arguments, report),
             "distribution.json sha256:", ManifestDigest(report.manifest), "\n");
}

Json ReportJson(const Arguments& arguments, const manifest::JoinReport& report) {
  Json files = Json::array();
  for (const manifest::JoinReport::File& file : report.files) {
    files.push_back({{"file", file.name}, {"bytes", file.bytes}});
    if (!file.from.empty()) files.back()["from"] = file.from;
    if (!file.link.empty()) files.back()["link"] = file.link;
  }
  return {{"distributions", arguments.distributions},
          {"output", arguments.out},
          {"dry_run", arguments.join.dry_run},
          {"complete", report.manifest.complete},
          {"absent", report.absent},
          {"manifest_sha256", ManifestDigest(report.manifest)},
          {"files", std::move(files)},
          {"bytes", report.total_bytes()}};
}

Result<Timed<manifest::JoinReport>> JoinWithProgress(const Arguments& arguments) {
  Progress progress("joining");
  manifest::JoinOptions options = arguments.join;
  options.link = arguments.link.value_or(manifest::LinkKind::kAuto);
  options.pack.progress = progress.Shows();
  SHARD_TRY(manifest::JoinReport report,
            manifest::JoinDistributions(arguments.distributions, arguments.out, options));
  return Timed<manifest::JoinReport>{std::move(report), progress.seconds()};
}

std::string TasksLine(const Arguments& arguments, const manifest::TaskJoinReport& report,
                      double seconds) {
  const bool dry_run = arguments.join.dry_run;
  const std::string text =
      Cat(dry_run ? "would write " : "wrote ", ExactBytes(report.total_bytes()), " of ",
          Plural(report.tasks, "task"), " to ", Shown(arguments.out));
  if (dry_run) return text;
  return Cat(text, " in ", FormatElapsed(seconds),
             report.manifest ? Cat("; ", AbsentText(report.absent)) : "");
}

std::string TasksText(const Arguments& arguments, const manifest::TaskJoinReport& report,
                      double seconds) {
  Table table({"file", ">bytes"});
  for (const manifest::JoinReport::File& file : report.files)
    table.Row({file.name, FormatCount(file.bytes)});
  const std::string text = Cat(table.Render(), "\n", TasksLine(arguments, report, seconds), "\n");
  if (!report.manifest || arguments.join.dry_run) return text;
  return Cat(text, "distribution.json sha256:", ManifestDigest(*report.manifest), "\n");
}

Json TasksJson(const Arguments& arguments, const manifest::TaskJoinReport& report) {
  Json files = Json::array();
  for (const manifest::JoinReport::File& file : report.files)
    files.push_back({{"file", file.name}, {"bytes", file.bytes}});
  Json document = {
      {"output", arguments.out}, {"dry_run", arguments.join.dry_run}, {"tasks", report.tasks}};
  if (report.manifest && !arguments.join.dry_run) {
    document["complete"] = report.manifest->complete;
    document["manifest_sha256"] = ManifestDigest(*report.manifest);
  }
  document["absent"] = report.absent;
  document["files"] = std::move(files);
  document["bytes"] = report.total_bytes();
  return document;
}

Result<int> RunTasks(const Arguments& arguments, const std::vector<std::string>& tasks) {
  if (arguments.link) {
    return Error{Code::kInvalidArgument,
                 "--link has no effect on tasks: every file of the output "
                 "is made of several",
                 "leave it out: where the file system can, blocks are shared"};
  }
  Progress progress("joining");
  manifest::JoinOptions options = arguments.join;
  options.pack.progress = progress.Shows();
  SHARD_TRY(const manifest::TaskJoinReport report,
            manifest::JoinTasks(tasks, arguments.out, options));
  PrintWarnings(report.warnings);
  const double seconds = progress.seconds();
  SHARD_CHECK(arguments.json ? WriteJsonResult(TasksJson(arguments, report))
                             : WriteReport(TasksText(arguments, report, seconds),
                                           TasksLine(arguments, report, seconds)));
  return kExitDone;
}

Result<int> Run(const Arguments& arguments) {
  StopBetweenPieces();
  for (const std::string& distribution : arguments.distributions)
    SHARD_CHECK(CheckIsLocal(distribution));
  const SharesToJoin shares{arguments.distributions, arguments.out, arguments.link, arguments.join,
                            arguments.json};
  SHARD_TRY(const bool joined, JoinShares(shares));
  if (joined) return kExitDone;
  SHARD_TRY(const std::vector<std::string> tasks, manifest::FindTasks(arguments.distributions));
  if (!tasks.empty()) return RunTasks(arguments, tasks);
  SHARD_TRY(const Timed<manifest::JoinReport> outcome, JoinWithProgress(arguments));
  PrintWarnings(outcome.report.warnings);
  SHARD_CHECK(arguments.json ? WriteJsonResult(ReportJson(arguments, outcome.report))
                             : WriteReport(ReportText(arguments, outcome.report, outcome.seconds),
                                           ReportLine(arguments, outcome.report, outcome.seconds)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option("DIST", arguments->distributions,
                 "The directories of two or more distributions that hold parts of one; or "
                 "directories of tasks (of --task), or one that holds them all; or stores of parts "
                 "of a refit.")
      ->required();
  StartSection(app, "Output");
  app.add_option(
         "-o,--output", arguments->out,
         Cat("The joined distribution's directory, the GGUF that tasks of quantize wrote, or the "
             "store that parts of a refit or the statistics that tasks of profile make. ",
             kOutputDirectoryHelp))
      ->type_name("DIR")
      ->required();
  AddLink(app, arguments->link,
          {"How bundles get into the output", {"auto", "hardlink", "reflink", "copy"}});
  AddForce(app, arguments->join.force);
  AddJobs(app, arguments->join.pack.jobs);
  AddDryRun(app, arguments->join.dry_run);
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace join_command

constinit const Command kJoin = {
    "join",
    "Joins parts that several machines made into one distribution",
    "Takes distributions that shard-experts --only made of one source with the same plan, options "
    "and moepack, on any machines, and writes one: file by file the one that a single run writes. "
    "Anything that does not agree is an error that names both values; a part that several hold "
    "must have the same digests in all of them, and is taken from the first. Every file of the "
    "output is compared with its digest before the output appears. "
    "Missing parts may be added later. "
    "Of tasks that build, shard-experts and quantize did with --task, it makes the output that "
    "one run makes, and names the tasks that are missing. Of parts of a refit (of --only and "
    "--task) it makes the refit store, and the distribution if they have one; of tasks of profile "
    "the statistics.",
    {"moepack join part-0 part-1 -o joined", "moepack join part-1 part-0 -o copied --link copy"},
    {"--output", "--link", "--dry-run", "--force", "--json"},
    join_command::Bind};

}  // namespace moepack::cli
