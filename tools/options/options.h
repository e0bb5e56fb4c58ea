// Options that several commands share, and checks for their values.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libshard/model/model.h"
#include "libshard/plan/plan.h"
#include "tools/base/command.h"
#include "tools/options/source.h"

namespace moepack::cli {

inline constexpr uint64_t kMaxGroups = 65536;

// What a validator returns for an error: the message, and on a line of its own the hint.
std::string WithHint(const Error& error);
// For Option::transform: wrong values are usage errors that say what was expected.
CLI::Validator AsCount(uint64_t least, uint64_t most);  // decimal digits only
CLI::Validator AsReal(double least, double most);       // "0.01", "1e-3"
CLI::Validator AsBytes(uint64_t least);                 // "64M", "2GiB"
CLI::Validator OneOf(std::vector<std::string> words);
// Makes shells offer these words as values of an option that accepts others, too; OneOf does it by
// itself.
void Offer(CLI::Option* option, const std::vector<std::string>& words);
// What shells offer as values of an option; empty for none.
std::vector<std::string> OfferedWords(const CLI::Option& option);
CLI::Validator AsUtf8();  // what goes into JSON and into the metadata of files

struct SourceArguments {
  std::string source;
  ModelOptions model;
  RemoteArguments remote;

  // For messages and documents: without secrets.
  std::string shown() const;
};
// `more` ends the help of SRC with a sentence about what else this command accepts, or is "".
void AddSource(CLI::App& app, SourceArguments& arguments, const char* more = "");
// --family and --config, without the argument SRC.
void AddModelOptions(CLI::App& app, ModelOptions& options);
// Adds the files that options name, so that no output is one of them. Each struct of options that
// several commands share has its own; an option that names a file goes into it.
void AddNamedFiles(const ModelOptions& options, std::vector<std::string>& files);
// Opens the model and prints its warnings. `source` is the result of OpenSource, for commands that
// also use it otherwise.
Result<MoeModel> OpenModel(const moepack::Source& source, const SourceArguments& arguments);
Result<MoeModel> OpenModel(const SourceArguments& arguments);

// --overlay of commands that read a distribution: a version, or none.
struct OverlayArguments {
  std::string version;  // "": the current one
  bool none = false;
};
void AddOverlay(CLI::App& app, const char* help, OverlayArguments& arguments);

void AddJobs(CLI::App& app, size_t& jobs);
void AddMemory(CLI::App& app, uint64_t& memory);
// --chunk-map, which sets the size of its cells.
void AddChunkMap(CLI::App& app, uint64_t& cell_bytes);
void AddJson(CLI::App& app, bool& json);
void AddDryRun(CLI::App& app, bool& dry_run);
// --tensors, which needs --dry-run. REQUIRES: AddDryRun was called before.
void AddTensors(CLI::App& app, bool& tensors);
void AddForce(CLI::App& app, bool& force);

// --groups, --partition, --overlay-file, --uniform, and those of statistics_options.h.
void AddPlanOptions(CLI::App& app, PlanOptions& options);
// The same for a command that accepts several numbers of groups: they go to `groups`, and
// options.groups gets the first.
void AddPlanOptions(CLI::App& app, PlanOptions& options, std::vector<uint32_t>& groups);
void AddNamedFiles(const PlanOptions& options, std::vector<std::string>& files);
// Only an explicit partition determines on its own how many groups there are.
Status CheckPlanOptions(const PlanOptions& options);
// These options as distribution.json records them, without paths.
std::vector<std::string> RecordPlanOptions(const PlanOptions& options);
// kInvalidArgument for a word that distribution.json cannot hold; it follows its option.
Status CheckRecorded(const std::vector<std::string>& words);

}  // namespace moepack::cli
