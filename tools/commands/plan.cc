#include "libshard/plan/plan.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/file.h"
#include "libshard/base/quote.h"
#include "libshard/base/text.h"
#include "libshard/pack/slice.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"
#include "tools/reports/node_report.h"

namespace moepack::cli {
namespace plan_command {
namespace {

constexpr const char* kStandardOutput = "-";
constexpr uint64_t kMaxPlanFile = 256u << 20;

struct Arguments {
  SourceArguments source;
  PlanOptions plan;
  std::string out = "plan.json";
  bool force = false, dry_run = false, json = false;
};

// Sizes come from the layout that shard-experts would write; a names-only checkpoint has none.
Result<std::optional<PartBytes>> Sizes(const MoeModel& model, const Plan& plan) {
  if (model.checkpoint().names_only()) return std::optional<PartBytes>();
  SHARD_TRY(const auto files, SliceSafetensors(model, plan, {}));
  return std::optional(BytesOfFiles(files, plan));
}

Status CheckOutput(const Arguments& arguments) {
  if (arguments.out == kStandardOutput) {
    if (!arguments.json) return Ok();
    return Error{Code::kInvalidArgument, "-o - and --json cannot be used together",
                 "standard output can carry one document: drop --json to get the plan itself"};
  }
  std::error_code ignored;
  if (fs::is_directory(arguments.out, ignored)) {
    return Error{Code::kInvalidArgument, Cat(arguments.out, " is a directory"),
                 "-o takes the name of a file"};
  }
  if (arguments.force || !fs::exists(arguments.out, ignored)) return Ok();
  return Error{Code::kInvalidArgument, Cat(arguments.out, " already exists"),
               "--force replaces it, and -o names another file"};
}

bool IsPlan(const std::string& path) {
  const auto text = ReadTextFile(path, kMaxPlanFile);
  return text.has_value() && text->substr(0, 64).find("\"moepack-plan\"") != std::string::npos;
}

// An output that is also an input is refused even with --force, and so is any file of the
// checkpoint's directory that is no plan.
Status CheckNotInput(const Arguments& arguments, const fs::path& root) {
  std::error_code ignored;
  const fs::path out = arguments.out;
  const Error refused{Code::kInvalidArgument, Cat(arguments.out, " is also an input"),
                      "choose another output; inputs are never overwritten"};
  std::vector<std::string> inputs = {arguments.source.model.family_file,
                                     arguments.source.model.config_file,
                                     arguments.plan.overlay_file};
  const size_t colon = arguments.plan.partition.find(':');
  if (colon != std::string::npos) inputs.push_back(arguments.plan.partition.substr(colon + 1));
  for (const std::string& input : inputs) {
    if (!input.empty() && fs::equivalent(input, out, ignored)) return refused;
  }
  const fs::path folder = out.has_parent_path() ? out.parent_path() : ".";
  if (fs::exists(out, ignored) && fs::equivalent(folder, root, ignored) && !IsPlan(arguments.out))
    return refused;
  return Ok();
}

struct Outcome {
  const Arguments& arguments;
  const MoeModel& model;
  const Plan& plan;
  const PartBytes* bytes;
  uint64_t document_bytes;
};

std::string Report(const Outcome& outcome) {
  const Plan& plan = outcome.plan;
  std::string text =
      Cat(Shown(outcome.model.family().name), ": ", Plural(plan.groups.size(), "group"), ", ",
          plan.scheme, plan.uniform ? ", uniform" : "");
  if (const OverlayPlan* overlay = plan.current_overlay())
    text += Cat(", overlay ", Shown(overlay->version));
  text += "\n" + NodeTable(plan, outcome.bytes);
  const uint64_t remainder = CountIds(plan.remainder);
  if (remainder > 0) text += Cat("on no node: ", Plural(remainder, "expert"), " (all layers)\n");
  if (outcome.arguments.out != kStandardOutput) {
    text += Cat(outcome.arguments.dry_run ? "would write " : "wrote ", Shown(outcome.arguments.out),
                " (", FormatCount(outcome.document_bytes), " bytes)\n");
  }
  return text;
}

Json ReportJson(const Outcome& outcome) {
  const Plan& plan = outcome.plan;
  const OverlayPlan* overlay = plan.current_overlay();
  return {{"source", outcome.arguments.source.shown()},
          {"family", outcome.model.family().name},
          {"scheme", plan.scheme},
          {"uniform", plan.uniform},
          {"overlay_version", overlay == nullptr ? "" : overlay->version},
          {"nodes", NodesToJson(plan, outcome.bytes)},
          {"remainder_experts", CountIds(plan.remainder)},
          {"warnings", PlanWarnings(outcome.model, plan)},
          {"output",
           {{"file", outcome.arguments.out},
            {"bytes", outcome.document_bytes},
            {"written", !outcome.arguments.dry_run}}}};
}

Result<int> Run(const Arguments& arguments) {
  SHARD_CHECK(CheckPlanOptions(arguments.plan));
  SHARD_CHECK(CheckOutput(arguments));
  SHARD_TRY(const MoeModel model, OpenModel(arguments.source));
  NoteTraffic(*model.checkpoint().tree(), SizeOfFiles(model.checkpoint()));
  const auto root = model.checkpoint().tree()->LocalPath("");
  SHARD_CHECK(CheckNotInput(arguments, root.value_or("")));
  SHARD_TRY(const Plan plan, MakePlan(model, arguments.plan));
  SHARD_TRY(const auto bytes, Sizes(model, plan));
  PrintWarnings(PlanWarnings(model, plan));

  SHARD_TRY(const std::string document, PlanText(model, plan));
  const Outcome outcome{arguments, model, plan, bytes ? &*bytes : nullptr, document.size()};
  if (arguments.out == kStandardOutput) {
    std::string report = Report(outcome);
    report.pop_back();
    PrintMessage(report);
    SHARD_CHECK(WriteJsonText(arguments.dry_run ? "" : document));
    return kExitDone;
  }
  StopBetweenPieces();  // so that no signal leaves half of a file under a temporary name
  if (!arguments.dry_run) SHARD_CHECK(WriteTextFile(arguments.out, document));
  SHARD_CHECK(arguments.json ? WriteJsonResult(ReportJson(outcome)) : WriteResult(Report(outcome)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddSource(app, arguments->source);
  AddPlanOptions(app, arguments->plan);
  StartSection(app, Section::kOutput);
  app.add_option("-o,--output", arguments->out,
                 "Write the plan here. Default: plan.json. With \"-\" it goes to standard output "
                 "and the report to standard error.")
      ->type_name("FILE");
  AddForce(app, arguments->force);
  AddDryRun(app, arguments->dry_run);
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace plan_command

constinit const Command kPlan = {
    "plan",
    "Decides which experts each node holds and writes plan.json",
    "Every expert belongs to one group; an overlay replicates some of them on every node. The plan "
    "is plain JSON: shard-experts --plan takes it as it is or edited. Nothing but headers is read.",
    {"moepack plan fixtures/tiny-moe --groups 3 -o plan.json",
     "moepack plan fixtures/tiny-moe --groups 4 --overlay-file fixtures/tiny-overlay.json -o -"},
    plan_command::Bind};

}  // namespace moepack::cli
