#include "manifest/assemble.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/text.h"
#include "tools/command.h"
#include "tools/exit_code.h"
#include "tools/interrupt.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/table.h"

namespace cli {
namespace {

using shard::Cat;
using shard::Json;

constexpr uint64_t kMaxGroup = 65535;

struct Arguments {
  std::string distribution, out;
  manifest::AssembleOptions assemble;
  bool json = false;
};

std::string ReportText(const Arguments& arguments, const manifest::AssembleReport& report,
                       double seconds) {
  Table table({"file", ">bytes"});
  for (const manifest::AssembleReport::File& file : report.files) {
    table.Row({file.name, shard::FormatCount(file.bytes)});
  }
  const bool dry_run = arguments.assemble.dry_run;
  std::string text = Cat(table.Render(), "\n", dry_run ? "would write " : "wrote ",
                         ExactBytes(report.total_bytes()), " to ", arguments.out);
  if (!dry_run)
    text +=
        Cat(" in ", FormatElapsed(seconds), " (", FormatRate(report.total_bytes(), seconds), ")");
  return text + Cat("; group ", arguments.assemble.group, " with ", report.experts,
                    " experts per layer\n");
}

Json ReportJson(const Arguments& arguments, const manifest::AssembleReport& report) {
  Json files = Json::array();
  for (const manifest::AssembleReport::File& file : report.files) {
    files.push_back({{"file", file.name}, {"bytes", file.bytes}});
  }
  return {{"distribution", arguments.distribution},
          {"group", arguments.assemble.group},
          {"output", arguments.out},
          {"dry_run", arguments.assemble.dry_run},
          {"experts", report.experts},
          {"files", std::move(files)},
          {"bytes", report.total_bytes()},
          {"notes", report.notes}};
}

struct Outcome {
  manifest::AssembleReport report;
  double seconds = 0;
};

Result<Outcome> AssembleWithProgress(const Arguments& arguments) {
  Progress progress("assembling");
  manifest::AssembleOptions options = arguments.assemble;
  options.pack.progress = [&](const shard::PackProgress& state) {
    progress.Update(state.done_bytes, state.total_bytes);
  };
  SHARD_TRY(manifest::AssembleReport report,
            manifest::AssembleNode(arguments.distribution, arguments.out, options));
  return Outcome{std::move(report), progress.seconds()};
}

Result<int> Run(const Arguments& arguments) {
  StopBetweenPieces();
  SHARD_TRY(const Outcome outcome, AssembleWithProgress(arguments));
  for (const std::string& note : outcome.report.notes) PrintMessage("note: " + note);
  SHARD_CHECK(arguments.json ? WriteJsonResult(ReportJson(arguments, outcome.report))
                             : WriteResult(ReportText(arguments, outcome.report, outcome.seconds)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  manifest::AssembleOptions& options = arguments->assemble;
  app.add_option("DIST", arguments->distribution, "The directory of a distribution.")->required();
  app.add_option("--group", options.group, "The node's group, counted from 0.")
      ->type_name("G")
      ->transform(AsCount(0, kMaxGroup))
      ->required();
  app.add_option("-o,--output", arguments->out, "The node's directory.")
      ->type_name("DIR")
      ->required();
  app.add_option("--family", options.family_file,
                 "The table that the model was split with, when it was no built-in family.")
      ->type_name("FILE");
  AddMemory(app, options.pack.memory);
  AddJobs(app, options.pack.jobs);
  AddForce(app, options.force);
  AddDryRun(app, options.dry_run);
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace

constinit const Command kAssemble = {
    "assemble",
    "Makes one node's directory for a stock runtime",
    "Trunk, group and overlay become one self-contained Hugging Face style checkpoint: routers cut "
    "to the node's experts, experts numbered from 0, and the expert count in config.json changed.",
    {"moepack assemble out --group 1 -o node-1",
     "moepack assemble out-modulo --group 0 -o node-0 --dry-run"},
    Bind};

}  // namespace cli
