#include "runtime-shim/profile/profile.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "libshard/base/tool_version.h"
#include "libshard/import/import.h"
#include "libshard/stats/statistics_file.h"
#include "runtime-shim/cpu/dots.h"
#include "runtime-shim/model/bos_token.h"
#include "runtime-shim/profile/identity.h"
#include "runtime-shim/profile/second_moments.h"
#include "runtime-shim/profile/trace_header.h"
#include "runtime-shim/profile/windows.h"
#include "runtime-shim/session/together.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/commands/profile_task.h"
#include "tools/commands/task_run.h"
#include "tools/options/options.h"
#include "tools/options/output_file.h"
#include "tools/options/runtime_options.h"
#include "tools/options/session_texts.h"
#include "tools/options/standard_input.h"
#include "tools/options/task_option.h"
#include "tools/reports/runs/profile_report.h"

namespace moepack::cli {
namespace profile_command {
namespace {

constexpr uint64_t kMaxGenerate = 1u << 20;
constexpr uint32_t kTraceChunk = 128;

struct Arguments {
  RuntimeArguments runtime;
  TextArguments texts;
  std::optional<std::string> out;
  std::string trace, imatrix;  // "" for none
  std::vector<std::string> merge;
  runtime::ProfileOptions profile;
  std::optional<uint64_t> memory;
  TaskArguments task;
  bool force = false, dry_run = false, json = false;
};

constexpr const char* kStandardOutput = "-";

Status CheckFile(const Arguments& arguments, const std::string& out, bool replace) {
  std::vector<std::string> inputs = arguments.merge;
  AddNamedFiles(arguments.texts, inputs);
  AddNamedFiles(arguments.runtime.load.model, inputs);
  return CheckModelOutput(out, arguments.runtime.source, inputs, replace);
}

Status CheckForm(const Arguments& arguments, const std::string& out) {
  if (out == kStandardOutput) {
    if (!arguments.json) return Ok();
    return Error{Code::kInvalidArgument, "-o - and --json cannot be used together",
                 "standard output can carry one document: drop --json to get the statistics"};
  }
  return CheckStatisticsName(out);
}

// What a task writes is elsewhere; `join` looks at the output.
Status CheckOutput(const Arguments& arguments, bool task) {
  if (arguments.out) SHARD_CHECK(CheckForm(arguments, *arguments.out));
  std::vector<NamedOutput> outputs = {{"--output", arguments.out.value_or("")},
                                      {"--trace", arguments.trace},
                                      {"--imatrix", arguments.imatrix}};
  std::erase_if(outputs, [](const NamedOutput& output) { return output.path.empty(); });
  SHARD_CHECK(CheckFilesDiffer(outputs));
  for (const NamedOutput& output : outputs) {
    if (output.path != kStandardOutput)
      SHARD_CHECK(CheckFile(arguments, output.path, arguments.force || task));
  }
  if (!arguments.force || !outputs.empty()) return Ok();
  return Error{Code::kInvalidArgument, "--force requires --output, --trace or --imatrix"};
}

runtime::ProfileOptions OptionsFor(const Arguments& arguments, const runtime::Weights& weights) {
  runtime::ProfileOptions options = arguments.profile;
  options.bos = runtime::BosToken(weights.metadata);
  if (options.generate > 0) options.is_end = EndsGeneration(weights);
  return options;
}

std::vector<TraceTurn> TurnsOf(const std::vector<TokenSession>& sessions) {
  std::vector<TraceTurn> turns;
  for (const TokenSession& session : sessions) turns.push_back({session.name, session.bucket});
  return turns;
}

struct Collected {
  Statistics statistics;
  Status traced;  // whether the trace has its name
};
Result<Collected> Collect(const Arguments& arguments, const LoadedModel& loaded,
                          const std::vector<TokenSession>& sessions,
                          runtime::ProfileOptions options, runtime::SecondMoments& moments,
                          uint64_t tokens_before = 0) {
  const runtime::Model& model = *loaded.model;
  SHARD_TRY(const ModelIdentity identity, runtime::IdentifyModel(*loaded.weights, model.spec()));
  runtime::StatisticsCollector collector(identity, options.bos);
  collector.StartAt(tokens_before);
  std::optional<TraceWriter> trace;
  if (!arguments.trace.empty()) {
    SHARD_TRY(
        TraceWriter made,
        TraceWriter::Create(arguments.trace,
                            runtime::TraceHeaderOf(*loaded.weights, identity, TurnsOf(sessions)),
                            arguments.force));
    trace.emplace(std::move(made));
    collector.TraceTo(*trace);
  }
  // A trace lists choices in the order of the text.
  const uint32_t positions = options.context + options.generate;
  SHARD_TRY(runtime::Together together,
            runtime::FitSessions(model, positions, RunMemory(arguments.runtime, arguments.memory)));
  if (trace)
    together = {1, std::min({kTraceChunk, options.context, together.batch()}),
                together.logit_bytes};
  options.chunk = together.chunk;
  if (!arguments.imatrix.empty()) collector.MomentsTo(moments);
  Progress progress("profiling", ProgressUnit::kTokens);
  const uint64_t total = CountTokens(sessions) + sessions.size() * options.generate;
  uint64_t done = 0;
  options.advance = [&](uint64_t tokens) {
    done += tokens;
    progress.Update(std::min(done, total), total);
  };
  std::vector<std::unique_ptr<runtime::Session>> opened;
  std::vector<runtime::Session*> slots;
  for (uint32_t slot = 0; slot < together.sessions; ++slot) {
    runtime::SessionOptions opening{positions, together.batch(), &collector.ObserverOf(slot),
                                    together.logit_bytes};
    opening.ran = [&](double tokens) {
      progress.Update(std::min(done + static_cast<uint64_t>(tokens), total), total);
    };
    SHARD_TRY(opened.emplace_back(),
              runtime::Session::Open(
                  model, runtime::EligibleExperts(*loaded.weights, std::nullopt, true), opening));
    slots.push_back(opened.back().get());
  }
  options.executor = loaded.executor->name();
  options.precision = runtime::PrecisionOf(*loaded.weights);
  SHARD_CHECK(runtime::ProfileTexts(sessions, options, slots, collector));
  return Collected{collector.statistics(), trace ? trace->Finish() : Ok()};
}

Result<int> RunDryRun(const Arguments& arguments) {
  RuntimeArguments headers = arguments.runtime;
  headers.load.verify = false;
  SHARD_TRY(const auto weights, LoadSource(headers.source, headers));
  SHARD_TRY(const std::vector<TokenSession> sessions,
            ReadSessions(arguments.texts, VocabularyOf(*weights), TokenizeAs(weights)));
  SHARD_CHECK(arguments.json
                  ? WriteJsonResult(ProfilePlanJson(sessions, arguments.profile.generate))
                  : WriteReport(ProfilePlanText(sessions, arguments.profile.generate),
                                ProfilePlanLine(sessions)));
  return kExitDone;
}

// Chunks are the windows that were run.
Status WriteMoments(const Arguments& arguments, const runtime::SecondMoments& moments,
                    const std::vector<TokenSession>& sessions,
                    const runtime::ProfileOptions& options, const std::string& router_digest) {
  if (arguments.imatrix.empty()) return Ok();
  Imatrix imatrix;
  SHARD_TRY(imatrix.entries, moments.Entries());
  for (const auto* paths : {&arguments.texts.texts, &arguments.texts.tokens}) {
    for (const std::string& path : *paths) imatrix.datasets.push_back(FileName(FileOrInput(path)));
  }
  for (const TokenSession& session : sessions)
    imatrix.chunks += static_cast<uint32_t>(
        runtime::SplitWindows(session.tokens, options.context, options.bos, false).size());
  imatrix.chunk_tokens = options.context;
  imatrix.router_digest = router_digest;
  return WriteImatrix(arguments.imatrix, imatrix, arguments.force);
}

Status WriteStatisticsOf(const Arguments& arguments, const Statistics& statistics) {
  if (!arguments.out || arguments.out == kStandardOutput) return Ok();
  SHARD_CHECK(WriteStatistics(*arguments.out, statistics, arguments.force));
  return Ok();
}

Result<int> Finish(const Arguments& arguments, const Statistics& statistics) {
  const bool standard = arguments.out == kStandardOutput;
  const std::string file = standard ? "" : arguments.out.value_or("");
  const ProfileReport report{statistics, Summarize(statistics), file, arguments.trace,
                             arguments.imatrix};
  if (standard) {
    PrintMessage(ProfileText(report));
    SHARD_CHECK(WriteJsonText(StatisticsBytes(kStandardOutput, statistics)));
    return kExitDone;
  }
  SHARD_CHECK(arguments.json ? WriteJsonResult(ProfileJson(report))
                             : WriteReport(ProfileText(report), ProfileLine(report)));
  return kExitDone;
}

// ---- One task of several

// What no task can do.
Status CheckTask(const Arguments& arguments) {
  if (!arguments.out || *arguments.out == kStandardOutput)
    return Error{Code::kInvalidArgument,
                 "--task needs -o FILE: `join` writes the statistics there"};
  if (!arguments.trace.empty())
    return NotInTask("--trace", "a trace lists the choices of all sessions in their order");
  if (!arguments.imatrix.empty())
    return NotInTask("--imatrix",
                     "sums over all tokens round as they were added: measure it on one machine");
  if (!arguments.merge.empty())
    return NotInTask("--merge", "`moepack statistics merge` adds others to the joined statistics");
  if (arguments.profile.generate == 0) return Ok();
  return NotInTask("--generate", "how much earlier sessions generate is not known");
}

// What decides the statistics, besides the number of tasks.
Result<ProfileTask> TaskOf(const Arguments& arguments, const TaskNumber& number,
                           const LoadedModel& loaded, const std::vector<TokenSession>& sessions) {
  SHARD_TRY(const ModelIdentity identity,
            runtime::IdentifyModel(*loaded.weights, loaded.model->spec()));
  Sha256 texts;
  for (const TokenSession& session : sessions) {
    const std::string name = Cat(session.name, "\n", session.bucket, "\n", session.tokens.size());
    texts.Update(std::as_bytes(std::span(name)));
    texts.Update(std::as_bytes(std::span(session.tokens)));
  }
  ProfileTask task{*arguments.out, number, {}};
  task.work = {{"moepack", ToolVersion()},
               {"instructions", runtime::DotInstructions()},
               {"executor", loaded.executor->name()},
               {"precision", runtime::PrecisionOf(*loaded.weights)},
               {"model", identity.router_digest},
               {"versions", Cat(identity.model_version, " ", identity.shard_version, " ",
                                identity.replica_version)},
               {"context", Cat(arguments.profile.context)},
               {"texts", texts.Finish()}};
  return task;
}

uint64_t TokensOfWindows(std::span<const TokenSession> sessions,
                         const runtime::ProfileOptions& options) {
  uint64_t tokens = 0;
  for (const TokenSession& session : sessions) {
    for (const auto& window :
         runtime::SplitWindows(session.tokens, options.context, options.bos, false))
      tokens += window.tokens.size();
  }
  return tokens;
}

Status ReportTask(const Arguments& arguments, const ProfileTask& task, const SessionShare& share,
                  size_t of_sessions, bool was_there) {
  const std::string where = ProfileTaskDirectory(task);
  if (arguments.json)
    return WriteJsonResult({{"task", task.number.index},
                            {"tasks", task.number.count},
                            {"directory", where},
                            {"was_there", was_there},
                            {"sessions", share.last - share.first},
                            {"of_sessions", of_sessions}});
  const std::string done =
      was_there ? Cat("nothing to do: ", Shown(where), " is there already")
                : Cat("wrote the statistics of ", FormatCount(share.last - share.first), " of ",
                      Plural(of_sessions, "session"), " to ", Shown(where));
  return WriteReport(Cat(done, "\nwhen all tasks are done:\n  ", JoinCommandText(task.out), "\n"));
}

Result<int> RunTaskOf(const Arguments& arguments, const TaskNumber& number,
                      const LoadedModel& loaded, const std::vector<TokenSession>& sessions) {
  SHARD_TRY(const ProfileTask task, TaskOf(arguments, number, loaded, sessions));
  const SessionShare share = ShareOfSessions(sessions, number);
  SHARD_TRY(const bool done, IsProfileTaskDone(task, arguments.force));
  if (!done) {
    const runtime::ProfileOptions options = OptionsFor(arguments, *loaded.weights);
    const auto all = std::span(sessions);
    const auto own = all.subspan(share.first, share.last - share.first);
    runtime::SecondMoments none;
    SHARD_TRY(const Collected collected,
              Collect(arguments, loaded, {own.begin(), own.end()}, options, none,
                      TokensOfWindows(all.first(share.first), options)));
    SHARD_CHECK(WriteProfileTask(task, collected.statistics));
  }
  SHARD_CHECK(ReportTask(arguments, task, share, sessions.size(), done));
  return kExitDone;
}

Result<int> Run(const Arguments& arguments) {
  StopBetweenPieces();
  SHARD_TRY(const std::optional<TaskNumber> task, ChooseTask(arguments.task));
  if (task) SHARD_CHECK(CheckTask(arguments));
  SHARD_CHECK(CheckOutput(arguments, task.has_value()));
  SHARD_CHECK(CheckRuntimeOptions(arguments.runtime.source, arguments.runtime, ""));
  if (arguments.dry_run) return RunDryRun(arguments);
  runtime::SecondMoments moments;
  SHARD_TRY(std::shared_ptr<runtime::Executor> executor, OpenExecutor(arguments.runtime));
  if (!arguments.imatrix.empty())
    executor = std::make_shared<runtime::ObservedExecutor>(std::move(executor), moments);
  SHARD_TRY(const LoadedModel loaded,
            LoadModel(arguments.runtime.source, arguments.runtime, std::move(executor)));
  moments.SetWeights(*loaded.weights);
  SHARD_TRY(const std::vector<TokenSession> sessions,
            ReadSessions(arguments.texts, loaded.model->vocabulary(), TokenizeAs(loaded.weights)));
  if (task) return RunTaskOf(arguments, *task, loaded, sessions);
  const runtime::ProfileOptions options = OptionsFor(arguments, *loaded.weights);
  SHARD_TRY(Collected collected, Collect(arguments, loaded, sessions, options, moments));
  Statistics& statistics = collected.statistics;
  const Status imatrix =
      WriteMoments(arguments, moments, sessions, options, statistics.model.router_digest);
  for (const std::string& path : arguments.merge) {
    SHARD_CHECK(CheckIsProfile(path));
    SHARD_TRY(const Statistics other, ReadStatistics(path));
    SHARD_CHECK(MergeStatistics(path, other, statistics));
  }
  // The statistics are written even if another output could not get its name.
  SHARD_CHECK(WriteStatisticsOf(arguments, statistics));
  SHARD_CHECK(collected.traced);
  SHARD_CHECK(imatrix);
  return Finish(arguments, statistics);
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddRuntimeSource(app, "SRC", kAnySource, arguments->runtime.source, arguments->runtime);
  AddTexts(app, arguments->texts);
  StartSection(app, "Output");
  app.add_option(
         "-o,--output", arguments->out,
         "Write the statistics here: NAME.json, or compressed with zstd as NAME.json.zst. With "
         "\"-\" JSON goes to standard output and the report to standard error.")
      ->type_name("FILE");
  app.add_option(
         "--trace", arguments->trace,
         "Write every choice here, token by token, as a route_trace v1 CSV "
         "(docs/statistics.md): 30 bytes for each expert, layer and token, or 9 if the name "
         "ends in .zst.")
      ->type_name("FILE");
  app.add_option(
         "--imatrix", arguments->imatrix,
         "Write an importance matrix here, as llama-imatrix does: it describes the inputs of every "
         "weight matrix while the texts were read. For --imatrix of quantize, build and "
         "plan, and for llama-quantize.")
      ->type_name("FILE");
  app.add_option(
         "--merge", arguments->merge,
         "Add these statistics of the same model to the new ones. Their sessions must have other "
         "names. Several files may follow, and the option may be repeated.")
      ->type_name("FILE");
  StartSection(app, "Generation");
  app.add_option(
         "--generate", arguments->profile.generate,
         "After each session, decode N tokens greedily and count them separately. Default: 0.")
      ->type_name("N")
      ->transform(AsCount(0, kMaxGenerate));
  AddForce(app, arguments->force);
  AddTask(app, arguments->task);
  AddContext(app, "Longer sessions run in windows. Default: 512.", arguments->profile.context);
  AddExecutor(app, arguments->runtime);
  AddRunMemory(app, arguments->memory);
  StartSection(app, "General");
  app.add_flag("--dry-run", arguments->dry_run,
               "Run and write nothing; print the sessions that would be run.");
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace profile_command

constinit const Command kProfile = {
    "profile",
    "Measures which experts the routers choose for your texts",
    "Runs texts through the whole model and counts, for every session, phase, layer and expert, "
    "the tokens, the applied gates, the gates times the output norms and the largest output; and "
    "which experts were chosen together. Prints how concentrated each layer is, whether the texts "
    "were enough, and which experts are Super Experts. The files are described in "
    "docs/statistics.md.",
    {"moepack profile fixtures/tiny-moe --text fixtures/tiny-moe/NOTE.md",
     "moepack profile fixtures/tiny-moe --text fixtures/tiny-moe/NOTE.md --generate 16 -o "
     "stats.json --force"},
    {"--text", "--tokens", "--bucket", "--output", "--imatrix", "--trace", "--generate",
     "--executor", "--dry-run", "--force"},
    profile_command::Bind};

}  // namespace moepack::cli
