#include "manifest/node/assemble.h"

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/limits.h"
#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "tools/base/command.h"
#include "tools/base/command_text.h"
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
namespace assemble_command {
namespace {

struct Arguments {
  std::string distribution, out;
  manifest::AssembleOptions assemble;
  OverlayArguments overlay;
  RemoteArguments remote;
  bool json = false;
};

std::string ReportLine(const Arguments& arguments, const manifest::AssembleReport& report,
                       double seconds) {
  const bool dry_run = arguments.assemble.dry_run;
  std::string text = Cat(dry_run ? "would write " : "wrote ", ExactBytes(report.total_bytes()),
                         " to ", Shown(arguments.out));
  if (!dry_run)
    text +=
        Cat(" in ", FormatElapsed(seconds), " (", FormatRate(report.total_bytes(), seconds), ")");
  return Cat(text, "; group ", arguments.assemble.group, " with ",
             Plural(report.expert_count, "expert"), " per layer");
}

std::string ReportText(const Arguments& arguments, const manifest::AssembleReport& report,
                       double seconds) {
  Table table({"file", ">bytes", "how"});
  for (const manifest::AssembleReport::File& file : report.files) {
    table.Row({file.name, FormatCount(file.bytes), file.link});
  }
  const bool dry_run = arguments.assemble.dry_run;
  std::string text = Cat(table.Render(), "\n", ReportLine(arguments, report, seconds), "\n");
  if (!report.model_file.empty() && !dry_run)
    text += Cat("\nrun it:\n  ", ServerCommand(arguments.out, report.model_file), "\n");
  return text;
}

Json ReportJson(const Arguments& arguments, const manifest::AssembleReport& report) {
  Json files = Json::array();
  for (const manifest::AssembleReport::File& file : report.files) {
    files.push_back({{"file", file.name}, {"bytes", file.bytes}});
    if (!file.link.empty()) files.back()["link"] = file.link;
  }
  Json document = {{"distribution", arguments.distribution},
                   {"group", arguments.assemble.group},
                   {"output", arguments.out},
                   {"dry_run", arguments.assemble.dry_run},
                   {"experts", report.expert_count},
                   {"files", std::move(files)},
                   {"bytes", report.total_bytes()},
                   {"notes", report.notes}};
  if (!report.model_file.empty())
    document["server_command"] = ServerCommand(arguments.out, report.model_file);
  return document;
}

Result<Timed<manifest::AssembleReport>> AssembleWithProgress(const Arguments& arguments) {
  Progress progress("assembling");
  manifest::AssembleOptions options = arguments.assemble;
  options.overlay = arguments.overlay.version;
  options.with_overlay = !arguments.overlay.none;
  options.pack.progress = progress.Shows();
  SHARD_TRY(manifest::AssembleReport report,
            manifest::AssembleNode(arguments.distribution, arguments.out, options));
  return Timed<manifest::AssembleReport>{std::move(report), progress.seconds()};
}

// A distribution on another machine is read from there.
Status OpenDistribution(Arguments& arguments) {
  if (!IsAddress(arguments.distribution)) {
    SHARD_CHECK(CheckRemoteUse(arguments.remote, arguments.distribution));
    return CheckIsNoReference(arguments.distribution, arguments.assemble.group);
  }
  SHARD_TRY(const moepack::Source source, OpenSource(arguments.distribution, arguments.remote));
  arguments.assemble.distribution = source.tree;
  arguments.distribution = WithoutSecrets(arguments.distribution);
  return Ok();
}

Result<int> Run(Arguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(OpenDistribution(arguments));
  SHARD_CHECK(CheckHoldsNoInput(arguments.out, {arguments.assemble.family_file}));
  SHARD_TRY(const Timed<manifest::AssembleReport> outcome, AssembleWithProgress(arguments));
  PrintNotes(outcome.report.notes);
  PrintWarnings(outcome.report.warnings);
  if (arguments.assemble.distribution)
    NoteTraffic(*arguments.assemble.distribution, outcome.report.source_bytes,
                arguments.assemble.dry_run);
  SHARD_CHECK(arguments.json ? WriteJsonResult(ReportJson(arguments, outcome.report))
                             : WriteReport(ReportText(arguments, outcome.report, outcome.seconds),
                                           ReportLine(arguments, outcome.report, outcome.seconds)));
  return kExitDone;
}

// Node names become file names, and loaders interpret the end of a part's name.
std::string NameProblem(const std::string& text) {
  const bool plain = !text.empty() && text[0] != '.' &&
                     text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789._-") == text.npos;
  if (plain && text.find("-of-") == text.npos) return "";
  return Cat("expected letters, digits, '.', '_' or '-' without \"-of-\", found ", Quoted(text));
}

// CLI11 runs the transformation that was added last first.
void AddNodeLayout(CLI::App& app, manifest::AssembleOptions& options) {
  using manifest::NodeLayout;
  const std::map<std::string, NodeLayout> layouts = {{"split", NodeLayout::kSplit},
                                                     {"single", NodeLayout::kSingle}};
  app.add_option(
         "--layout", options.layout,
         "GGUF: split (a set of head, trunk and experts; the default) or single (one file).")
      ->type_name("LAYOUT")
      ->transform(CLI::Transformer(layouts).description(""))
      ->transform(OneOf({"split", "single"}));
  AddLink(app, options.link,
          {"GGUF: how the trunk gets into a split set",
           {"auto", "hardlink", "reflink", "symlink", "copy"}});
  app.add_option(
         "--max-part-size", options.max_part_size,
         "GGUF: cut the experts of a split set into files of at most this size: 5G, 512MiB. "
         "The trunk keeps the files it has.")
      ->type_name("SIZE")
      ->transform(AsBytes(kLeastPartSize));
  AddAlignment(app, options.alignment);
  app.add_option("--name", options.name, "GGUF: prefix of the file names. Default: node.")
      ->type_name("NAME")
      ->check(NameProblem);
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  manifest::AssembleOptions& options = arguments->assemble;
  app.add_option("DIST", arguments->distribution,
                 "The directory of a distribution, or its address.")
      ->required();
  StartSection(app, "Input");
  app.add_option("--group", options.group, "The node's group, counted from 0.")
      ->type_name("G")
      ->transform(AsCount(0, kMaxGroups - 1))
      ->required();
  AddOverlay(
      app,
      "The version of the overlay that the node gets, or none for the group alone. Default: "
      "the current one, which is the last that was made; of a directory that was pulled, the "
      "one in its pulled.json.",
      arguments->overlay);
  app.add_option("--family", options.family_file,
                 "safetensors: the table that the model was split with, if its family is not built "
                 "in.")
      ->type_name("FILE");
  AddRemoteOptions(app, arguments->remote);
  StartSection(app, "Output");
  app.add_option("-o,--output", arguments->out, Cat("The node's directory. ", kOutputDirectoryHelp))
      ->type_name("DIR")
      ->required();
  AddNodeLayout(app, options);
  AddForce(app, options.force);
  AddMemory(app, options.pack.memory);
  AddJobs(app, options.pack.jobs);
  AddDryRun(app, options.dry_run);
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace assemble_command

constinit const Command kAssemble = {
    "assemble",
    "Makes one node's directory for a stock runtime",
    "Cuts the routers to the node's experts, numbers these from 0, merges the overlay in and "
    "changes the expert count. GGUF bundles become a split set that an unmodified llama.cpp loads "
    "and whose trunk is shared with other nodes; safetensors bundles become a Hugging Face style "
    "checkpoint.",
    {"moepack assemble out-q4 --group 1 -o node-1",
     "moepack assemble out --group 0 -o node-0 --dry-run"},
    {"--group", "--output", "--overlay", "--layout", "--link", "--name", "--dry-run", "--force"},
    assemble_command::Bind};

}  // namespace moepack::cli
