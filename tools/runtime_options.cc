#include "tools/runtime_options.h"

#include <CLI/CLI.hpp>

#include "tools/options.h"
#include "tools/output.h"
#include "tools/progress.h"

namespace cli {
namespace {

constexpr uint64_t kMaxDevices = 64;
constexpr uint64_t kMaxThreads = 1024;
constexpr uint64_t kMaxContext = 1u << 24;
constexpr uint64_t kMaxGroup = 65535;

std::vector<std::string> ExecutorNames() {
  std::vector<std::string> names;
  for (const runtime::ExecutorKind& kind : runtime::AllExecutorKinds()) {
    names.emplace_back(kind.name);
  }
  return names;
}

}  // namespace

void AddRuntimeSource(CLI::App& app, const char* name, const char* help,
                      RuntimeArguments& arguments) {
  app.add_option(name, arguments.source, help)->required();
  app.add_flag("--no-verify", arguments.no_verify,
               "Do not compare what is loaded with the digests of the manifest.");
  CLI::Option* none = app.add_flag("--no-overlay", arguments.no_overlay, "Leave the overlay out.");
  app.add_option("--overlay", arguments.load.overlay_version,
                 "Load this version of the overlay. Default: the newest that the manifest names.")
      ->type_name("VERSION")
      ->excludes(none);
  AddModelOptions(app, arguments.load.model);
}

void AddGroup(CLI::App& app, int& group) {
  app.add_option("--group", group,
                 "Run as the node of this expert group: its experts and the overlay's.")
      ->type_name("G")
      ->transform(AsCount(0, kMaxGroup));
}

void AddExecutor(CLI::App& app, RuntimeArguments& arguments) {
  app.add_option("--executor", arguments.executor, "Where to run: cpu (default), vulkan or cuda.")
      ->type_name("NAME")
      ->transform(OneOf(ExecutorNames()));
  app.add_option("--device", arguments.device.device,
                 "Which device of the executor, counted from 0. Default: 0.")
      ->type_name("N")
      ->transform(AsCount(0, kMaxDevices - 1));
  app.add_option("--threads", arguments.device.threads,
                 "Threads of the CPU that compute tokens. Default: one per core.")
      ->type_name("N")
      ->transform(AsCount(1, kMaxThreads));
  app.add_option(
         "-j,--jobs", arguments.jobs,
         "Threads that read, check and convert what is loaded. Default: as many as compute.")
      ->type_name("N")
      ->transform(AsCount(1, kMaxThreads));
}

void AddContext(CLI::App& app, const char* fallback, RuntimeArguments& arguments) {
  app.add_option("--context", arguments.context,
                 std::string("Positions that a session can hold. ") + fallback)
      ->type_name("N")
      ->transform(AsCount(2, kMaxContext));
}

Result<std::shared_ptr<runtime::Executor>> OpenExecutor(const RuntimeArguments& arguments) {
  SHARD_TRY(std::unique_ptr<runtime::Executor> executor,
            runtime::OpenExecutor(arguments.executor, arguments.device));
  return std::shared_ptr<runtime::Executor>(std::move(executor));
}

Result<std::shared_ptr<const runtime::Weights>> LoadSource(const std::string& source,
                                                           const RuntimeArguments& arguments) {
  runtime::LoadOptions options = arguments.load;
  options.verify = !arguments.no_verify;
  options.overlay = !arguments.no_overlay;
  options.jobs = arguments.load_jobs();
  Progress progress("loading");
  options.progress = [&](uint64_t done, uint64_t total) { progress.Update(done, total); };
  SHARD_TRY(auto weights, runtime::LoadWeights(source, options));
  progress.Clear();
  PrintNotes(weights->notes);
  return weights;
}

uint32_t VocabularyOf(const runtime::Weights& weights) {
  const runtime::HostTensor* embedding = weights.FindTrunk("token_embd.weight");
  return embedding && !embedding->shape.empty() ? static_cast<uint32_t>(embedding->shape[0]) : 0;
}

Result<LoadedModel> LoadModel(const std::string& source, const RuntimeArguments& arguments,
                              std::shared_ptr<runtime::Executor> executor) {
  LoadedModel loaded;
  SHARD_TRY(loaded.weights, LoadSource(source, arguments));
  SHARD_TRY(loaded.model, runtime::Model::Load(loaded.weights, *executor));
  loaded.executor = std::move(executor);
  return loaded;
}

}  // namespace cli
