#include <CLI/CLI.hpp>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/import/import.h"
#include "manifest/document/manifest_write.h"
#include "manifest/overlay/make_overlay.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/options/link_option.h"
#include "tools/options/options.h"
#include "tools/options/output_file.h"
#include "tools/options/quantize_options.h"
#include "tools/options/source.h"

namespace moepack::cli {
namespace overlay_command {
namespace {

constexpr uint64_t kMostVersions = std::numeric_limits<uint32_t>::max();

struct Arguments {
  std::string distribution, out, source;
  std::vector<std::string> statistics;
  RemoteArguments remote;
  std::optional<manifest::LinkKind> link;
  manifest::OverlayOptions overlay;
  bool json = false;
};

Status CheckArguments(const Arguments& arguments) {
  const bool file = !arguments.overlay.request.file.empty();
  if (!file && arguments.statistics.empty()) {
    return Error{Code::kInvalidArgument, "overlay: --overlay-file or --statistics is required"};
  }
  const manifest::OverlaySource& source = arguments.overlay.source;
  const char* option = !source.model.config_file.empty() ? "--config"
                       : !source.imatrix_files.empty()   ? "--imatrix"
                       : !source.pre.empty()             ? "--pre"
                                                         : nullptr;
  if (!arguments.source.empty() || option == nullptr) return Ok();
  return Error{Code::kInvalidArgument, Cat(option, " has no effect without --source"),
               "leave it out: only what comes from the source is converted"};
}

std::vector<std::string> InputsOf(const Arguments& arguments) {
  const manifest::OverlaySource& source = arguments.overlay.source;
  std::vector<std::string> inputs = arguments.statistics;
  inputs.insert(inputs.end(), source.imatrix_files.begin(), source.imatrix_files.end());
  inputs.push_back(arguments.overlay.request.file);
  if (!IsAddress(arguments.source)) inputs.push_back(arguments.source);
  AddNamedFiles(source.model, inputs);
  return inputs;
}

Result<std::vector<manifest::NamedScores>> ReadScores(const std::vector<std::string>& files) {
  std::vector<manifest::NamedScores> scores;
  for (const std::string& file : files) {
    SHARD_TRY(ExpertScores read, ReadProfileScores(file, std::nullopt));
    PrintWarnings(read.warnings);
    scores.push_back({file, std::move(read)});
  }
  return scores;
}

// One line like "overlay v1 -> v2: layer 3: +5 -7" for each change.
std::string ChangesText(const manifest::OverlayReport& report) {
  const OverlayPlan& overlay = *report.manifest.plan.current_overlay();
  std::string text = Cat("overlay ", overlay.parent.empty() ? "" : Cat(overlay.parent, " -> "),
                         overlay.version, "\n");
  for (const manifest::Change& change : report.changes) {
    if (!change.name.starts_with("version")) text += Cat("  ", change.name, "\n");
  }
  return text;
}

std::string ReportLine(const Arguments& arguments, const manifest::OverlayReport& report,
                       double seconds) {
  const bool dry_run = arguments.overlay.dry_run;
  return Cat(dry_run ? "would write " : "wrote ", ExactBytes(report.new_bytes()),
             " of new data to ", Shown(arguments.out),
             dry_run ? "" : Cat(" in ", FormatElapsed(seconds)), "; ",
             ExactBytes(report.total_bytes() - report.new_bytes()), " are those of ",
             Shown(arguments.distribution));
}

std::string ReportText(const Arguments& arguments, const manifest::OverlayReport& report,
                       double seconds) {
  Table table({"file", ">bytes", "how"});
  for (const manifest::OverlayReport::File& file : report.files)
    table.Row({file.name, FormatCount(file.bytes), file.carried ? file.link : "new"});
  const bool dry_run = arguments.overlay.dry_run;
  std::string text = Cat(ChangesText(report), "\n", table.Render(), "\n",
                         ReportLine(arguments, report, seconds), "\n");
  if (report.source_experts > 0)
    text += Cat(Plural(report.source_experts, "expert"), " from ",
                Shown(WithoutSecrets(arguments.source)), "\n");
  if (!report.dropped.empty()) text += Cat("not kept: ", moepack::Join(report.dropped, ", "), "\n");
  if (dry_run) return text;
  return Cat(text, "distribution.json sha256:", ManifestDigest(report.manifest), "\n");
}

Json ReportJson(const Arguments& arguments, const manifest::OverlayReport& report) {
  const Plan& plan = report.manifest.plan;
  Json files = Json::array();
  for (const manifest::OverlayReport::File& file : report.files) {
    files.push_back({{"file", file.name}, {"bytes", file.bytes}, {"new", !file.carried}});
    if (!file.link.empty()) files.back()["link"] = file.link;
  }
  Json versions = Json::array();
  for (const OverlayPlan& overlay : plan.overlays) versions.push_back(overlay.version);
  Json document = {{"distribution", arguments.distribution},
                   {"output", arguments.out},
                   {"dry_run", arguments.overlay.dry_run}};
  document["overlay"] = OverlayToJson(*plan.current_overlay(), plan.layers);
  document["versions"] = std::move(versions);
  document["dropped"] = report.dropped;
  document["source_experts"] = report.source_experts;
  document["files"] = std::move(files);
  document["bytes"] = report.total_bytes();
  document["new_bytes"] = report.new_bytes();
  if (!arguments.overlay.dry_run) document["manifest_sha256"] = ManifestDigest(report.manifest);
  return document;
}

Result<Timed<manifest::OverlayReport>> MakeWithProgress(const Arguments& arguments) {
  Progress progress("making the overlay");
  manifest::OverlayOptions options = arguments.overlay;
  options.link = arguments.link.value_or(manifest::LinkKind::kAuto);
  options.pack.progress = progress.Shows();
  SHARD_TRY(manifest::OverlayReport report,
            manifest::MakeOverlay(arguments.distribution, arguments.out, options));
  return Timed<manifest::OverlayReport>{std::move(report), progress.seconds()};
}

Result<int> Run(Arguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(CheckArguments(arguments));
  SHARD_CHECK(CheckIsLocal(arguments.distribution));
  SHARD_CHECK(CheckHoldsNoInput(arguments.out, InputsOf(arguments)));
  SHARD_TRY(arguments.overlay.request.scores, ReadScores(arguments.statistics));
  if (!arguments.source.empty()) {
    SHARD_TRY(arguments.overlay.source.source, OpenSource(arguments.source, arguments.remote));
  } else {
    SHARD_CHECK(CheckRemoteUse(arguments.remote, arguments.distribution));
  }
  SHARD_TRY(const Timed<manifest::OverlayReport> outcome, MakeWithProgress(arguments));
  if (!arguments.source.empty() && outcome.report.source_experts == 0) {
    PrintNotes({Cat("nothing was taken from ", Shown(WithoutSecrets(arguments.source)),
                    ": the distribution has all experts")});
  }
  PrintNotes(outcome.report.notes);
  PrintWarnings(outcome.report.warnings);
  SHARD_CHECK(arguments.json ? WriteJsonResult(ReportJson(arguments, outcome.report))
                             : WriteReport(ReportText(arguments, outcome.report, outcome.seconds),
                                           ReportLine(arguments, outcome.report, outcome.seconds)));
  return kExitDone;
}

void AddWhatItHolds(CLI::App& app, Arguments& arguments) {
  manifest::OverlayRequest& request = arguments.overlay.request;
  StartSection(app, "Split");
  CLI::Option* file =
      app.add_option("--overlay-file", request.file,
                     "What the overlay holds: {\"version\": \"v2\", \"layers\": {\"*\": "
                     "\"3,97\"}}.")
          ->type_name("FILE");
  CLI::Option* statistics =
      app.add_option("--statistics", arguments.statistics,
                     "Statistics of `moepack profile`: the overlay holds the experts of every "
                     "layer that they rank first among those that not every group holds. Several "
                     "files are combined.")
          ->type_name("FILE")
          ->excludes(file);
  app.add_option("--size", request.size,
                 "With --statistics: experts of every layer; if fewer than that are not in every "
                 "group, all of these. Default: as many as the overlay that this one is made "
                 "from.")
      ->type_name("N")
      ->transform(AsCount(1, kMostVersions))
      ->needs(statistics);
  app.add_option("--version", request.version,
                 "Its name. Default: that of the overlay file; with --statistics that of the "
                 "parent with its last number raised by one.")
      ->type_name("VERSION");
  app.add_option(
         "--parent", request.parent,
         "The version that it is made from, which is recorded and gives the default of --size. "
         "Default: the current overlay.")
      ->type_name("VERSION");
}

void AddExpertsFrom(CLI::App& app, Arguments& arguments) {
  manifest::OverlaySource& source = arguments.overlay.source;
  StartSection(app, "Input");
  app.add_option("--source", arguments.source,
                 "The model that the distribution was made from, for experts that none of its "
                 "files holds: a directory, a GGUF, or an address.")
      ->type_name("SRC");
  AddModelOptions(app, source.model);
  AddRemoteOptions(app, arguments.remote);
  AddImatrices(app, source.imatrix_files);
  AddPre(app, source.pre);
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option("DIST", arguments->distribution, "The directory of a distribution.")->required();
  AddWhatItHolds(app, *arguments);
  AddExpertsFrom(app, *arguments);
  StartSection(app, "Output");
  app.add_option(
         "-o,--output", arguments->out,
         Cat("The directory of the distribution with the new overlay. ", kOutputDirectoryHelp))
      ->type_name("DIR")
      ->required();
  app.add_option("--keep", arguments->overlay.keep,
                 "Keep this many older versions beside the new one, the newest. Default: all.")
      ->type_name("N")
      ->transform(AsCount(0, kMostVersions));
  AddLink(app, arguments->link,
          {"How bundles get into the output", {"auto", "hardlink", "reflink", "copy"}});
  AddForce(app, arguments->overlay.force);
  AddMemory(app, arguments->overlay.pack.memory);
  AddJobs(app, arguments->overlay.pack.jobs);
  AddDryRun(app, arguments->overlay.dry_run);
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace overlay_command

constinit const Command kOverlay = {
    "overlay",
    "Makes a new version of the overlay; trunk and groups stay as they are",
    "Writes a distribution with everything that DIST holds, by links, and a new overlay beside the "
    "older versions. It becomes the current one, which nodes get unless they ask for another. Its "
    "experts are copied from the groups and overlays that hold them; what none holds comes from "
    "--source, made with the recipe of the distribution.",
    {"moepack overlay out --overlay-file fixtures/tiny-overlay-2.json -o out-2",
     "moepack overlay out-2 --overlay-file fixtures/tiny-overlay-2.json --version third -o out-3 "
     "--keep 1 --dry-run"},
    {"--output", "--overlay-file", "--statistics", "--size", "--version", "--source", "--keep",
     "--link", "--dry-run", "--force"},
    overlay_command::Bind};

}  // namespace moepack::cli
