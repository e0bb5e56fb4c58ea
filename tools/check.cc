#include "runtime-shim/check.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/exit_code.h"
#include "tools/masking_report.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/runtime_options.h"
#include "tools/token_ids.h"

namespace cli {
namespace {

struct Arguments : RuntimeArguments {
  int group = -1;
  std::string tokens, against;
  double tolerance = -1;
  bool no_assembled = false, json = false;
};

Result<runtime::CheckOptions> OptionsOf(const Arguments& arguments) {
  runtime::CheckOptions options;
  options.executor = arguments.executor;
  options.device = arguments.device;
  options.load = arguments.load;
  options.load.overlay = !arguments.no_overlay;
  options.load.verify = !arguments.no_verify;
  options.load.jobs = arguments.device.threads;
  options.against = arguments.against;
  if (arguments.group >= 0) options.groups.push_back(static_cast<uint32_t>(arguments.group));
  if (arguments.tolerance >= 0) options.tolerance = arguments.tolerance;
  if (!arguments.tokens.empty()) {
    SHARD_TRY(options.tokens, ParseTokenIds("--tokens", arguments.tokens));
  }
  options.assembled = !arguments.no_assembled;
  return options;
}

Result<int> Run(const Arguments& arguments) {
  SHARD_TRY(runtime::CheckOptions options, OptionsOf(arguments));
  Status written = shard::Ok();
  options.checked = [&](const runtime::CheckedNode& node) {
    if (!arguments.json && written) written = WriteResult(CheckedNodeText(node));
  };
  SHARD_TRY(const runtime::CheckReport report,
            runtime::CheckDistribution(arguments.source, options));
  SHARD_CHECK(written);
  PrintNotes(report.notes);
  SHARD_CHECK(arguments.json
                  ? WriteJsonResult(CheckJson(arguments.source, arguments.against, report))
                  : WriteResult(CheckSummary(report)));
  return report.failures() == 0 ? kExitDone : kExitMismatch;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddRuntimeSource(app, "DIST", *arguments);
  AddGroup(app, arguments->group);
  app.add_option("--against", arguments->against,
                 "Compare with this model instead of the distribution's own parts, all loaded: the "
                 "source of a distribution that was not quantized.")
      ->type_name("SRC");
  app.add_option("--tokens", arguments->tokens,
                 "What to run, as token ids: 12,7,9. Default: 32 ids spread over the vocabulary.")
      ->type_name("IDS");
  app.add_option("--tolerance", arguments->tolerance,
                 "How far logits may differ, as a part of the largest logit; 0: not in a bit. "
                 "Default: 0 on cpu, 1e-4 elsewhere.")
      ->type_name("X")
      ->check(AsTolerance());
  app.add_flag("--no-assembled", arguments->no_assembled,
               "Do not assemble each node, in a directory for temporary files, to compare it too.");
  AddExecutor(app, *arguments);
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace

constinit const Command kCheck = {
    "check",
    "Runs every node and compares it with the masked model",
    "Loads each group as its node would, runs a few tokens with and without the overlay, and "
    "compares the logits with those of the whole model whose routers are masked to the same "
    "experts: on cpu they must be the same bits. Nodes of the same group, assembled for a stock "
    "runtime, are compared too. A node that differs is named with the position and, where it can "
    "be "
    "told, the layer and the expert. Exit status 6 when one does.",
    {"moepack check out", "moepack check out --against fixtures/tiny-moe --json"},
    Bind};

}  // namespace cli
