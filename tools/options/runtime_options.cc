#include "tools/options/runtime_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"
#include "tools/options/source.h"

namespace moepack::cli {
namespace {

constexpr uint64_t kMaxDevices = 64;
constexpr uint64_t kLeastRunMemory = 1u << 20;
// The smallest maxStorageBufferRange that Vulkan allows: no buffer of activations exceeds it.
constexpr uint64_t kMostDeviceMemory = 128u << 20;
constexpr uint64_t kMaxContext = 1u << 24;

std::vector<std::string> ExecutorNames() {
  std::vector<std::string> names;
  for (const runtime::ExecutorKind& kind : runtime::AllExecutorKinds()) {
    names.emplace_back(kind.name);
  }
  return names;
}

}  // namespace

void AddRuntimeSource(CLI::App& app, const char* name, const char* help, std::string& source,
                      runtime::NodeOptions& options) {
  app.add_option(name, source, help)->required();
  StartSection(app, "Checks");
  CLI::Option* unverified =
      app.add_flag("!--no-verify", options.load.verify,
                   "Do not compare what is loaded with the digests of the distribution or node, if "
                   "it has any.");
  app.add_flag("--verify-files", options.load.verify_files,
               "Compare the SHA-256 of every file of a distribution that is loaded, instead of the "
               "XXH3-128 of its tensors. It takes longer.")
      ->excludes(unverified);
  StartSection(app, "Input");
  CLI::Option* none = app.add_flag("!--no-overlay", options.load.overlay,
                                   "Run without the overlay of a distribution, if it has one.");
  app.add_option(
         "--overlay", options.load.overlay_version,
         "Load this version of the overlay. Default: the current one, which is the last that "
         "was made; of a directory that was pulled, the one in its pulled.json.")
      ->type_name("VERSION")
      ->excludes(none);
  AddModelOptions(app, options.load.model);
}

Status CheckRuntimeOptions(const std::string& source, const runtime::NodeOptions& options,
                           const std::string& against) {
  SHARD_CHECK(CheckIsLocal(source));
  SHARD_CHECK(CheckIsLocal(against));
  SHARD_CHECK(CheckIsNoName(source));
  SHARD_CHECK(CheckIsNoName(against));
  const ModelOptions& model = options.load.model;
  const char* option = !model.family_file.empty()   ? "--family"
                       : !model.config_file.empty() ? "--config"
                                                    : nullptr;
  const bool of_parts = !options.load.overlay || options.load.verify_files;
  if (option == nullptr && !of_parts) return Ok();
  SHARD_TRY(const bool distribution, moepack::IsThere(fs::path(source) / manifest::kManifestFile));
  SHARD_TRY(const bool there, moepack::IsThere(source));
  if (!there) return Ok();  // opening it says so
  if (!distribution && of_parts) {
    const bool overlay = !options.load.overlay;
    return Error{
        Code::kInvalidArgument,
        Cat(overlay ? "--no-overlay" : "--verify-files", " has no effect: ", source,
            " is not a distribution"),
        overlay ? "leave it out: only a distribution has an overlay"
                : "leave it out: a node's files are compared by SHA-256 always, others have none"};
  }
  if (!distribution || option == nullptr || !against.empty()) return Ok();
  SHARD_TRY(const manifest::Manifest read, manifest::ReadManifest(source));
  if (!read.is_gguf()) return Ok();
  return Error{Code::kInvalidArgument, Cat(option, " has no effect: ", source, " has GGUF bundles"),
               "leave it out: GGUF bundles describe themselves"};
}

void AddGroup(CLI::App& app, const char* help, std::optional<uint32_t>& group) {
  StartSection(app, "Input");
  app.add_option("--group", group, help)->type_name("G")->transform(AsCount(0, kMaxGroups - 1));
}

void AddExecutorChoice(CLI::App& app, const std::string& prefix, const char* where,
                       std::string& executor, uint32_t& device) {
  app.add_option(Cat("--", prefix, "executor"), executor,
                 Cat(where, ": cpu (default), vulkan or cuda."))
      ->type_name("NAME")
      ->transform(OneOf(ExecutorNames()));
  app.add_option(Cat("--", prefix, "device"), device,
                 "Which of the executor's devices to use, counted from 0. Default: 0.")
      ->type_name("N")
      ->transform(AsCount(0, kMaxDevices - 1));
}

void AddExecutor(CLI::App& app, runtime::NodeOptions& options) {
  StartSection(app, "Resources");
  AddExecutorChoice(app, "", "Where to run", options.executor, options.device.device);
  app.add_option("--threads", options.device.threads,
                 "CPU threads that compute tokens. Default: one per core.")
      ->type_name("N")
      ->transform(AsCount(1, runtime::kMaxThreads));
  app.add_option(
         "-j,--jobs", options.load.jobs,
         "Threads that read, check and convert what is loaded. Default: as many as compute.")
      ->type_name("N")
      ->transform(AsCount(1, runtime::kMaxThreads));
}

void AddContext(CLI::App& app, const char* fallback, uint32_t& context) {
  StartSection(app, "Resources");
  app.add_option("--context", context,
                 std::string("Positions that a session can hold. ") + fallback)
      ->type_name("N")
      ->transform(AsCount(2, kMaxContext));
}

void AddRunMemory(CLI::App& app, std::optional<uint64_t>& memory) {
  StartSection(app, "Resources");
  app.add_option("--memory", memory,
                 "Upper bound for caches, activations and logits: 512M, 4GiB. The more, the more "
                 "tokens run at once; too little for one pass is an error. Default: 1GiB, or what "
                 "one pass needs; executors other than cpu take 128MiB where that is enough.")
      ->type_name("SIZE")
      ->transform(AsBytes(kLeastRunMemory));
}

runtime::MemoryBound RunMemory(const runtime::NodeOptions& options,
                               const std::optional<uint64_t>& memory) {
  runtime::MemoryBound bound;
  if (memory) bound = {*memory, *memory};
  if (options.executor != "cpu") bound.wanted = std::min(bound.wanted, kMostDeviceMemory);
  return bound;
}

Result<std::shared_ptr<runtime::Executor>> OpenExecutor(const runtime::NodeOptions& options) {
  SHARD_TRY(std::unique_ptr<runtime::Executor> executor,
            runtime::OpenExecutor(options.executor, options.device));
  return std::shared_ptr<runtime::Executor>(std::move(executor));
}

namespace {

template <class From>
Result<std::shared_ptr<const runtime::Weights>> LoadFrom(const From& source,
                                                         const runtime::NodeOptions& options) {
  runtime::LoadOptions loading = options.loading();
  Progress progress("loading");
  loading.progress = progress.Shows();
  SHARD_TRY(auto weights, runtime::LoadWeights(source, loading));
  progress.Clear();
  PrintNotes(weights->notes);
  return weights;
}

}  // namespace

Result<std::shared_ptr<const runtime::Weights>> LoadSource(const std::string& source,
                                                           const runtime::NodeOptions& options) {
  return LoadFrom(source, options);
}

Result<std::shared_ptr<const runtime::Weights>> LoadSource(const moepack::Source& source,
                                                           const runtime::NodeOptions& options) {
  return LoadFrom(source, options);
}

Result<std::shared_ptr<runtime::Executor>> OpenRecordedExecutor(const runtime::NodeOptions& options,
                                                                const std::string& store,
                                                                const char* made) {
  const std::vector<std::string> names = ExecutorNames();
  if (std::find(names.begin(), names.end(), options.executor) == names.end())
    return Error{Code::kCorrupt, Cat(Shown(store), ": parameter executor: expected one of ",
                                     Join(names, ", "), ", found ", Quoted(options.executor))};
  auto opened = OpenExecutor(options);
  if (opened) return opened;
  return std::move(opened).error().Within(
      Cat(Shown(store), ": ", made, " was computed by executor ", Quoted(options.executor)));
}

std::vector<std::string> WarnWithoutAlgebra(runtime::Executor& executor, const char* slow,
                                            const char* what) {
  const std::optional<Error> missing = executor.WithoutAlgebra();
  if (!missing) return {};
  return {Cat("slow ", slow, ": ", missing->message, "; ", what, missing->hint.empty() ? "" : "; ",
              missing->hint)};
}

uint32_t VocabularyOf(const runtime::Weights& weights) {
  const runtime::HostTensor* embedding = weights.FindTrunk("token_embd.weight");
  return embedding && !embedding->shape.empty() ? static_cast<uint32_t>(embedding->shape[0]) : 0;
}

Result<LoadedModel> LoadModel(const std::string& source, const runtime::NodeOptions& options,
                              std::shared_ptr<runtime::Executor> executor) {
  SHARD_TRY(auto weights, LoadSource(source, options));
  return LoadModel(std::move(weights), std::move(executor));
}

Result<LoadedModel> LoadModel(std::shared_ptr<const runtime::Weights> weights,
                              std::shared_ptr<runtime::Executor> executor) {
  LoadedModel loaded;
  loaded.weights = std::move(weights);
  SHARD_TRY(loaded.model, runtime::Model::Load(loaded.weights, *executor));
  loaded.executor = std::move(executor);
  return loaded;
}

}  // namespace moepack::cli
