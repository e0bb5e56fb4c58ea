#include <CLI/CLI.hpp>
#include <memory>

#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "manifest/write/output_path.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"
#include "tools/options/output_file.h"
#include "tools/page/page.h"

namespace moepack::cli {
namespace report_command {
namespace {

struct Arguments {
  std::vector<std::string> inputs;
  std::string out = "report.html";
  bool force = false;
};

Result<int> Run(const Arguments& arguments) {
  SHARD_CHECK(CheckOutputFile(arguments.out, arguments.inputs, arguments.force));
  SHARD_TRY(const PageInputs inputs, ReadPageInputs(arguments.inputs));
  if (inputs.distribution)
    SHARD_CHECK(manifest::CheckOutsideDistribution(arguments.out, inputs.distribution_path));
  PrintWarnings(inputs.warnings);
  const std::string page = ReportPage(inputs);
  SHARD_CHECK(WriteTextFile(arguments.out, page, arguments.force));
  SHARD_CHECK(
      WriteReport(Cat("wrote ", moepack::Shown(arguments.out), " (", FormatCount(page.size()),
                      " bytes): ", moepack::Shown(PageTitle(inputs)), ", from ",
                      Plural(inputs.files.size(), "document"), "\n")));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  StartSection(app, "Input");
  app.add_option("INPUT", arguments->inputs,
                 "Documents of moepack, known by their content: a distribution (its directory or "
                 "distribution.json), plan.json, statistics, what eval --json printed, refit.json, "
                 "calibration.json, the results of experiment.")
      ->required()
      ->type_name("DIST|JSON");
  StartSection(app, "Output");
  app.add_option("-o,--output", arguments->out, "Write the page here. Default: report.html.")
      ->type_name("FILE");
  AddForce(app, arguments->force);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace report_command

constinit const Command kReport = {
    "report",
    "Makes one HTML page about a distribution and what was measured of it",
    "Draws what the documents say: bytes per node, what the routers use, what sessions find on "
    "their node, what the split costs beside quantization, what calibration and "
    "refit improved, where sessions are "
    "sent, and what to run next. The page is self-contained: it loads nothing and runs no script, "
    "so that it can be mailed, archived and opened from a file. Every picture has its numbers in a "
    "table. Equal inputs give equal bytes. docs/experiment.md lists the sections.",
    {"moepack report out -o report.html",
     "moepack report fixtures/statistics/profile.json -o routing.html"},
    {"--output", "--force"},
    report_command::Bind};

}  // namespace moepack::cli
