#include "runtime-shim/masking/check.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"
#include "tools/options/runtime_options.h"
#include "tools/options/token_ids.h"
#include "tools/reports/runs/masking_report.h"

namespace moepack::cli {
namespace check_command {
namespace {

struct Arguments {
  std::string source, tokens;
  runtime::CheckOptions check;
  ReportArguments report;
};

// Prints each node when it is done, if the report is text.
Result<runtime::CheckReport> CheckWithProgress(Arguments& arguments) {
  runtime::CheckOptions& options = arguments.check;
  Status written = Ok();
  Progress loading("loading"), checking("checking", ProgressUnit::kTokens);
  options.load.progress = loading.Shows();
  options.progress = checking.Shows();
  options.checked = [&](const runtime::CheckedNode& node) {
    loading.Clear();
    checking.Clear();
    if (arguments.report.kind() == ReportFormat::kText && written && !IsQuiet())
      written = WriteResult(CheckedNodeText(node));
  };
  SHARD_TRY(runtime::CheckReport report, runtime::CheckDistribution(arguments.source, options));
  SHARD_CHECK(written);
  return report;
}

Status Write(const Arguments& arguments, const runtime::CheckReport& report) {
  switch (arguments.report.kind()) {
    case ReportFormat::kJson:
      return WriteJsonResult(CheckJson(arguments.source, arguments.check.against, report));
    case ReportFormat::kGithub:
      return WriteResult(GithubText(CheckCi(arguments.source, report)));
    case ReportFormat::kJunit:
      return WriteResult(JunitText(CheckCi(arguments.source, report)));
    case ReportFormat::kText:
      break;
  }
  return WriteReport(CheckSummary(report));
}

Result<int> Run(Arguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(CheckRuntimeOptions(arguments.source, arguments.check, arguments.check.against));
  if (!arguments.tokens.empty()) {
    SHARD_TRY(arguments.check.tokens, ReadTokenIds("--tokens", arguments.tokens));
  }
  SHARD_TRY(const runtime::CheckReport report, CheckWithProgress(arguments));
  PrintNotes(report.notes);
  SHARD_CHECK(Write(arguments, report));
  return report.failures() == 0 ? kExitDone : kExitMismatch;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  runtime::CheckOptions& options = arguments->check;
  AddRuntimeSource(app, "DIST", "The directory of a distribution.", arguments->source, options);
  AddGroup(app, "Check only the nodes of this expert group.", options.group);
  StartSection(app, "Checks");
  app.add_option("--against", options.against,
                 "Compare with this model, the source of a distribution that was not quantized, "
                 "instead of the distribution's own parts. With --group no other group is needed; "
                 "without --against all are.")
      ->type_name("SRC");
  app.add_option(
         "--tokens", arguments->tokens,
         "What to run: token ids, such as 12,7,9, or the name of a file of ids. Default: 32 "
         "ids spread over the vocabulary.")
      ->type_name("IDS|FILE");
  app.add_option(
         "--tolerance", options.tolerance,
         "How far logits may differ, as a share of the largest logit. With 0 every bit must "
         "be the same. Default: 0 on cpu, 1e-4 on other executors.")
      ->type_name("X")
      ->check(AsTolerance());
  app.add_flag("!--no-assembled", options.assembled,
               "Do not also assemble each node, in a directory for temporary files, and compare "
               "it.");
  AddExecutor(app, options);
  AddReportFormat(app, arguments->report);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace check_command

constinit const Command kCheck = {
    "check",
    "Runs every node and compares it with the masked model",
    "Loads each group as its node would, runs a few tokens with and without the overlay, and "
    "compares the logits with those of the whole model whose routers are masked to the same "
    "experts: on cpu they must be the same bits. Nodes of the same group, assembled for a stock "
    "runtime, are compared too. A node that differs is named with the position and, if possible, "
    "the layer and the expert. The exit status is then 6.",
    {"moepack check out", "moepack check out --against fixtures/tiny-moe --format junit"},
    {"--group", "--against", "--tokens", "--tolerance", "--executor", "--format"},
    check_command::Bind};

}  // namespace moepack::cli
