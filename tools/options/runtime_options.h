// Options shared by the commands of the runtime: what to load, where to run it, which tokens.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime-shim/session/node.h"
#include "runtime-shim/session/together.h"
#include "tools/base/command.h"

namespace moepack::cli {

struct RuntimeArguments : runtime::NodeOptions {
  std::string source;
};

// What every command that runs a model accepts, except check, which needs groups.
inline constexpr const char* kAnySource =
    "What to load: a distribution, a node's directory, a GGUF (file, split set, directory) or a "
    "safetensors checkpoint.";
// The positional argument `name` (SRC, DIST) with its help, --no-verify, --verify-files,
// --no-overlay, --overlay, --family, --config.
void AddRuntimeSource(CLI::App& app, const char* name, const char* help, std::string& source,
                      runtime::NodeOptions& options);
// Refuses options of AddRuntimeSource that would have no effect: those for an overlay if the source
// is not a distribution, and those for a checkpoint with GGUF bundles. `against` is another model
// that is loaded with the same options, or "".
Status CheckRuntimeOptions(const std::string& source, const runtime::NodeOptions& options,
                           const std::string& against);
// --group; without it: all groups that are loaded.
void AddGroup(CLI::App& app, const char* help, std::optional<uint32_t>& group);
// --executor and --device, in the current section; with a prefix such as "calibrate-" before both.
// `where` begins the help: "Where to run".
void AddExecutorChoice(CLI::App& app, const std::string& prefix, const char* where,
                       std::string& executor, uint32_t& device);
// The same, --threads (that compute), --jobs (that load).
void AddExecutor(CLI::App& app, runtime::NodeOptions& options);
// --context; `fallback` ends the help: "Default: 512."
void AddContext(CLI::App& app, const char* fallback, uint32_t& context);

// --memory of the commands that run many texts.
void AddRunMemory(CLI::App& app, std::optional<uint64_t>& memory);
// What sessions may take of it: devices bind no more than some memory to an operation at once.
runtime::MemoryBound RunMemory(const runtime::NodeOptions& options,
                               const std::optional<uint64_t>& memory);

// Members are destroyed in the order that borrowing requires: the model before its executor.
struct LoadedModel {
  std::shared_ptr<runtime::Executor> executor;
  std::shared_ptr<const runtime::Weights> weights;
  std::unique_ptr<runtime::Model> model;
};
Result<std::shared_ptr<runtime::Executor>> OpenExecutor(const runtime::NodeOptions& options);
// The same for the one that a store names, because another would round differently: kCorrupt for a
// name that no executor has. `made`: "the refit"; errors say that it was computed by this executor.
Result<std::shared_ptr<runtime::Executor>> OpenRecordedExecutor(const runtime::NodeOptions& options,
                                                                const std::string& store,
                                                                const char* made);
// Where the executor lacks dense algebra that it could have, a warning that `slow`, such as
// "refit", is slow because of `what`; otherwise none.
std::vector<std::string> WarnWithoutAlgebra(runtime::Executor& executor, const char* slow,
                                            const char* what);
// Loads `source` into memory; prints the notes of the load.
Result<std::shared_ptr<const runtime::Weights>> LoadSource(const std::string& source,
                                                           const runtime::NodeOptions& options);
// The same of one that is open.
Result<std::shared_ptr<const runtime::Weights>> LoadSource(const moepack::Source& source,
                                                           const runtime::NodeOptions& options);
// The rows of the embedding; 0 if there is none.
uint32_t VocabularyOf(const runtime::Weights& weights);
// Puts weights on the executor.
Result<LoadedModel> LoadModel(std::shared_ptr<const runtime::Weights> weights,
                              std::shared_ptr<runtime::Executor> executor);
// Calls LoadSource and puts the weights on the executor.
Result<LoadedModel> LoadModel(const std::string& source, const runtime::NodeOptions& options,
                              std::shared_ptr<runtime::Executor> executor);

}  // namespace moepack::cli
