#include "manifest/write/join.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest_write.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/options/link_option.h"
#include "tools/options/options.h"
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

// Says which parts nobody made, and how they are made.
std::string AbsentText(const Arguments& arguments, const manifest::JoinReport& report) {
  if (report.absent.empty()) return "all parts are there\n";
  return Cat("not complete; absent: ", moepack::Join(report.absent, ", "),
             "\nto make what is absent, repeat the shard-experts run of another part with --only ",
             moepack::Join(report.absent, ","), ": with -o ", Shown(arguments.out),
             " it adds to this distribution, with another directory it makes one to join\n");
}

std::string ReportText(const Arguments& arguments, const manifest::JoinReport& report,
                       double seconds) {
  Table table({"file", ">bytes", "how", "from"});
  for (const manifest::JoinReport::File& file : report.files) {
    table.Row({file.name, FormatCount(file.bytes), file.link, file.from});
  }
  const bool dry_run = arguments.join.dry_run;
  std::string text = Cat(table.Render(), "\n", dry_run ? "would write " : "wrote ",
                         ExactBytes(report.total_bytes()), " to ", Shown(arguments.out));
  if (!dry_run) text += Cat(" in ", FormatElapsed(seconds));
  return Cat(text, "; ", AbsentText(arguments, report),
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

struct Outcome {
  manifest::JoinReport report;
  double seconds = 0;
};

Result<Outcome> JoinWithProgress(const Arguments& arguments) {
  Progress progress("joining");
  manifest::JoinOptions options = arguments.join;
  options.link = arguments.link.value_or(manifest::LinkKind::kAuto);
  options.pack.progress = [&](const PackProgress& state) {
    progress.Update(state.done_bytes, state.total_bytes);
  };
  SHARD_TRY(manifest::JoinReport report,
            manifest::JoinDistributions(arguments.distributions, arguments.out, options));
  return Outcome{std::move(report), progress.seconds()};
}

Result<int> Run(const Arguments& arguments) {
  StopBetweenPieces();
  for (const std::string& distribution : arguments.distributions)
    SHARD_CHECK(CheckIsLocal(distribution));
  SHARD_TRY(const Outcome outcome, JoinWithProgress(arguments));
  PrintWarnings(outcome.report.warnings);
  SHARD_CHECK(arguments.json ? WriteJsonResult(ReportJson(arguments, outcome.report))
                             : WriteResult(ReportText(arguments, outcome.report, outcome.seconds)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option("DIST", arguments->distributions,
                 "The directories of two or more distributions that hold parts of one.")
      ->required();
  StartSection(app, Section::kOutput);
  app.add_option("-o,--output", arguments->out,
                 "The joined distribution's directory. It is written as DIR.partial and renamed at "
                 "the end.")
      ->type_name("DIR")
      ->required();
  AddLink(app, arguments->link,
          {"How bundles come into the output", {"auto", "hardlink", "reflink", "copy"}});
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
    "must be the same in all of them. Every file is compared with its digest before the output "
    "appears. "
    "Parts that nobody made may be added later.",
    {"moepack join part-0 part-1 -o joined", "moepack join part-1 part-0 -o copied --link copy"},
    join_command::Bind};

}  // namespace moepack::cli
