#include "manifest/registry/pull.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/plan/overlay_plan.h"
#include "manifest/node/assemble.h"
#include "manifest/registry/pull_selection.h"
#include "manifest/registry/sign/key_files.h"
#include "tools/base/command.h"
#include "tools/base/command_text.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/commands/registry/signature_options.h"
#include "tools/options/link_option.h"
#include "tools/options/options.h"
#include "tools/options/output_file.h"
#include "tools/options/reference_option.h"

namespace moepack::cli {
namespace pull_command {
namespace {

using registry::PullReport;

struct Arguments {
  std::string source, out;
  std::string overlay = "auto";
  registry::PullOptions pull;
  RegistryArguments registry;
  std::vector<std::string> key_files;
  bool require_signature = false;
  bool json = false;
};

struct Outcome {
  PullReport report;
  double seconds = 0;
  std::optional<manifest::AssembleReport> node;  // with --assemble
};

// Makes the node of the first group, with the overlay that was pulled.
std::string AssembleCommand(const Arguments& arguments, const PullReport& report) {
  const std::string group = Cat(report.groups[0]), &asked = arguments.pull.node;
  CommandLine line("assemble");
  line.AddPath(arguments.out);
  line.Add("--group", group);
  line.Add("--overlay", report.overlay.value_or(std::string(kNoOverlay)));
  line.AddPath("-o", asked.empty() ? FreePath("node-" + group) : asked);
  return line.Text();
}

// The next steps: a runtime's command for the node, or the commands that check and assemble it.
std::string NextLines(const Arguments& arguments, const Outcome& outcome) {
  if (outcome.node && outcome.node->model_file.empty()) return "";
  if (outcome.node) {
    const std::string server = ServerCommand(arguments.pull.node, outcome.node->model_file);
    return Cat("\nrun it:\n  ", server, "\n");
  }
  if (arguments.pull.dry_run) return "";
  CommandLine verify("verify");
  verify.AddPath(arguments.out);
  return Cat("\nnext:\n  ", verify.Text(), "\n  ", AssembleCommand(arguments, outcome.report),
             "\n");
}

std::string ReportLine(const Arguments& arguments, const Outcome& outcome) {
  const PullReport& report = outcome.report;
  const bool dry_run = arguments.pull.dry_run;
  std::string text = Cat(dry_run ? "would pull " : "pulled ", ExactBytes(report.new_bytes()),
                         " to ", Shown(arguments.out));
  if (!dry_run) text += Cat(" in ", FormatElapsed(outcome.seconds));
  if (report.resumed_bytes > 0)
    text += Cat("; ", ExactBytes(report.resumed_bytes), " fetched by an earlier run");
  if (report.there_bytes() > 0)
    text += Cat("; ", ExactBytes(report.there_bytes()), " already there");
  return Cat(text, "; ", registry::GroupsText(report.groups));
}

std::string ReportText(const Arguments& arguments, const Outcome& outcome) {
  const PullReport& report = outcome.report;
  Table files({"file", ">bytes", "how"});
  for (const PullReport::File& file : report.files)
    files.Row({file.name, FormatCount(file.bytes), file.how});
  std::string text =
      Cat(files.Render(), "\n", ReportLine(arguments, outcome), "\nmanifest ", report.digest, "\n");
  for (const registry::GoodSignature& one : report.signatures)
    text += Cat("manifest ", SignedByText(one), "\n");
  if (outcome.node) text += Cat("assembled ", Shown(arguments.pull.node), "\n");
  return text + NextLines(arguments, outcome);
}

Json ReportJson(const Arguments& arguments, const Outcome& outcome) {
  const PullReport& report = outcome.report;
  Json files = Json::array();
  for (const PullReport::File& file : report.files) {
    files.push_back({{"file", file.name}, {"digest", file.digest}, {"bytes", file.bytes}});
    if (!file.how.empty()) files.back()["how"] = file.how;
  }
  Json document = {{"reference", WithoutSecrets(arguments.source)},
                   {"digest", report.digest},
                   {"signatures", Json::array()},
                   {"groups", report.groups},
                   {"output", arguments.out},
                   {"dry_run", arguments.pull.dry_run},
                   {"extended", report.extended},
                   {"files", std::move(files)},
                   {"bytes", report.total_bytes()},
                   {"bytes_there", report.there_bytes()},
                   {"bytes_resumed", report.resumed_bytes}};
  for (const registry::GoodSignature& one : report.signatures) {
    document["signatures"].push_back(SignatureJson(one));
    document["signatures"].back()["digest"] = report.digest;
  }
  if (outcome.node) document["node"] = arguments.pull.node;
  return document;
}

// What will be done, printed before it takes its time. What an interrupted run left is not counted
// yet.
void PrintPlan(const PullReport& plan) {
  const uint64_t there = plan.there_bytes();
  PrintMessage(Cat("pulling ", registry::GroupsText(plan.groups), " of ", plan.digest, ": ",
                   Plural(plan.files.size(), "file"), ", ", ExactBytes(plan.total_bytes()),
                   there == 0 ? "" : Cat("; ", ExactBytes(there), " already there")));
}

Result<Outcome> PullWithProgress(Arguments& arguments) {
  SHARD_TRY(NamedStore named, ParseNamed(arguments.source, arguments.registry));
  Progress progress("pulling");
  registry::PullOptions& options = arguments.pull;
  options.access = std::move(named.access);
  SHARD_TRY(options.keys, registry::ReadPublicKeys(arguments.key_files));
  options.planned = [&](const PullReport& plan) {
    progress.Clear();
    if (!options.dry_run) PrintPlan(plan);
  };
  options.pack.progress = progress.Shows();
  SHARD_TRY(PullReport report, registry::Pull(named.reference, arguments.out, options));
  return Outcome{std::move(report), progress.seconds(), {}};
}

// The pull is complete, whatever became of the node.
Error NotAssembled(const Arguments& arguments, const PullReport& report, Error error) {
  error.message = Cat(Shown(arguments.out), " holds all that was pulled, but ",
                      Shown(arguments.pull.node), " was not assembled: ", error.message);
  error.hint = Cat(error.hint, error.hint.empty() ? "" : "; ", "then `",
                   AssembleCommand(arguments, report), "` makes the node");
  return error;
}

Status Assemble(const Arguments& arguments, Outcome& outcome) {
  const std::string& node = arguments.pull.node;
  if (node.empty() || arguments.pull.dry_run) return Ok();
  Progress progress("assembling");
  manifest::AssembleOptions options;
  options.group = outcome.report.groups[0];
  options.with_overlay = outcome.report.overlay.has_value();
  options.overlay = outcome.report.overlay.value_or("");
  options.force = arguments.pull.force;
  options.pack.jobs = arguments.pull.pack.jobs;
  options.pack.progress = progress.Shows();
  auto assembled = manifest::AssembleNode(arguments.out, node, options);
  if (!assembled) return NotAssembled(arguments, outcome.report, std::move(assembled).error());
  outcome.node = *std::move(assembled);
  return Ok();
}

Result<int> Run(Arguments& arguments) {
  StopBetweenPieces();
  arguments.pull.overlay = arguments.overlay != kNoOverlay;
  if (arguments.overlay != kAutomaticOverlay && arguments.overlay != kNoOverlay)
    arguments.pull.overlay_version = arguments.overlay;
  if (!arguments.pull.node.empty()) {
    SHARD_CHECK(
        CheckDirectoriesApart({"--output", arguments.out}, {"--assemble", arguments.pull.node}));
  }
  SHARD_TRY(Outcome outcome, PullWithProgress(arguments));
  PrintWarnings(outcome.report.warnings);
  SHARD_CHECK(Assemble(arguments, outcome));
  if (outcome.node) {
    PrintNotes(outcome.node->notes);
    PrintWarnings(outcome.node->warnings);
  }
  SHARD_CHECK(arguments.json
                  ? WriteJsonResult(ReportJson(arguments, outcome))
                  : WriteReport(ReportText(arguments, outcome), ReportLine(arguments, outcome)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  registry::PullOptions& options = arguments->pull;
  AddReference(
      app, "REF", arguments->source,
      Cat("What to pull: oci://host[:port]/repository[:tag][@sha256:...] of a registry, "
          "layout:DIR[:tag][@sha256:...] of this machine, layout+https://host/path[:tag] of a "
          "web server, or a distribution as files: a directory, ",
          AddressForms(), ". A digest takes precedence over the tag; default tag: latest."));
  StartSection(app, "Input");
  app.add_option("--group", options.groups,
                 "The groups whose files to pull, counted from 0: 1, or 0,2. Not needed for a node "
                 "view, which has one group, or for an existing output, which keeps its groups.")
      ->type_name("G")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(AsCount(0, kMaxGroups - 1));
  app.add_option(
         "--overlay", arguments->overlay,
         "auto (the default): the overlay that the output has of the same set, else the current "
         "one of the set, or none if the output has none; none: no overlay; a version: this one, "
         "which the set must have.")
      ->type_name("WHICH");
  StartSection(app, "Checks");
  CLI::Option* key =
      app.add_option("--key", arguments->key_files,
                     "Pull only what this public key (PEM) signed. Repeatable: one of the keys is "
                     "enough. This is checked before the first file is fetched.")
          ->type_name("KEY")
          ->allow_extra_args(false);
  app.add_flag("--require-signature", arguments->require_signature,
               "Refuse what is not signed by one of the --key. Implied by --key; without --key it "
               "is a usage error, so that a script that lost its key pulls nothing.")
      ->needs(key);
  StartSection(app, "Output");
  app.add_option("-o,--output", arguments->out,
                 Cat("The directory of the distribution. If the same distribution was pulled there "
                     "before, the missing files are added. ",
                     kOutputDirectoryHelp))
      ->type_name("DIR")
      ->required();
  app.add_option("--assemble", options.node,
                 "Then also make the node's directory for a stock runtime here, as assemble does, "
                 "with the overlay that was pulled.")
      ->type_name("DIR");
  AddLink(app, options.link,
          {"How bundles get out of the layout", {"auto", "hardlink", "reflink", "copy"}});
  app.add_flag("--update", options.update,
               "Get what the tag names now, even if the output was pulled before, and fetch only "
               "the differences. Groups that --group leaves out are not in the new version, which "
               "a warning says. Default: what pulled.json in the output names.");
  AddForce(app, options.force);
  AddJobs(app, options.pack.jobs);
  AddDryRun(app, options.dry_run);
  AddJson(app, arguments->json);
  AddRegistryOptions(app, arguments->registry);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace pull_command

constinit const Command kPull = {
    "pull",
    "Gets one node's files out of a registry, a layout or a distribution",
    "Checks the manifest's digest, then that it agrees with the distribution.json it names, then "
    "every byte of the files, before the output appears. The output is a distribution with the "
    "trunk, the overlay, the small files and the requested groups, which verify --group and "
    "assemble accept; a second pull adds other groups to it.",
    {"moepack pull layout:models:v1 --group 1 -o pulled-1",
     "moepack pull oci://registry.example/team/model:v1 --group 0 -o pulled --assemble node-0"},
    {"--group", "--output", "--assemble", "--overlay", "--key", "--update", "--username",
     "--password-stdin", "--dry-run", "--json"},
    pull_command::Bind};

}  // namespace moepack::cli
