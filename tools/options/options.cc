#include "tools/options/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <utility>

#include "libshard/base/files/cell_digest.h"
#include "libshard/base/text/address.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "libshard/plan/overlay_plan.h"
#include "libshard/plan/partition.h"
#include "manifest/node/open_node.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/options/statistics_options.h"

namespace moepack::cli {
namespace {

constexpr uint64_t kMaxJobs = 1024;
constexpr uint64_t kLeastMemory = 1u << 20;
// The name of a validator that carries what shells offer, and what is between the words.
constexpr const char* kOffers = "offers: ";
constexpr const char* kBetweenOffers = "|";

std::string PartitionProblem(const std::string& text) {
  const auto choice = ParsePartition(text);
  return choice ? "" : WithHint(choice.error());
}

// "3", "2,4,8".
std::string GroupCountsProblem(const std::string& text) {
  for (const std::string& number : moepack::Split(text, ',')) {
    const std::optional<uint64_t> value = ParseUint(number);
    if (!value || *value < 1 || *value > kMaxGroups)
      return Cat("expected ", number == text ? "a number" : "numbers", " from 1 to ", kMaxGroups,
                 ", found ", Quoted(text));
  }
  return "";
}

// Options for what --groups leaves open.
void AddDivision(CLI::App& app, PlanOptions& options) {
  CLI::Option* partition =
      app.add_option("--partition", options.partition,
                     Cat("How each layer's experts are divided: ", PartitionHelp(), "."))
          ->type_name("KIND")
          ->check(PartitionProblem);
  Offer(partition, PartitionsWithoutFile());
  app.add_option("--overlay-file", options.overlay_file,
                 "Replicate the experts that this JSON file names, per layer, on every node.")
      ->type_name("FILE");
  app.add_flag("--uniform,!--no-uniform", options.uniform,
               "Fill groups up until every node can pick from equally many experts in every layer, "
               "which stock runtimes need. On unless --no-uniform is given.");
  AddStatisticsOptions(app, options);
}

// Exactly, in a form that the option accepts: a rounded number might be too small.
std::string LeastSize(uint64_t bytes) {
  constexpr std::pair<uint64_t, const char*> kUnits[] = {
      {1'000'000, " MB"}, {1u << 20, " MiB"}, {1'000, " kB"}, {1u << 10, " KiB"}};
  for (const auto& [unit, name] : kUnits) {
    if (bytes >= unit && bytes % unit == 0) return Cat(bytes / unit, name);
  }
  return Cat(bytes, " B");
}

// A node's trunk may be elsewhere: its digest is then checked first.
Result<MoeModel> OpenWithProgress(const moepack::Source& source, const ModelOptions& options) {
  Progress progress("checking");
  return manifest::OpenModelOrNode(source, options, progress.Shows());
}

}  // namespace

std::string WithHint(const Error& error) {
  return error.hint.empty() ? error.message : Cat(error.message, "\n", error.hint);
}

CLI::Validator AsCount(uint64_t least, uint64_t most) {
  const auto check = [least, most](std::string& text) -> std::string {
    const std::optional<uint64_t> value = ParseUint(text);
    if (!value || *value < least || *value > most)
      return Cat("expected a number from ", least, " to ", most, ", found ", Quoted(text));
    text = std::to_string(*value);  // CLI11 would read "010" as octal
    return "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator AsReal(double least, double most) {
  const auto check = [least, most](std::string& text) -> std::string {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, problem] = std::from_chars(text.data(), end, value);
    // Not a number is in no range.
    if (problem != std::errc() || rest != end || !(value >= least && value <= most))
      return Cat("expected a number from ", least, " to ", most, ", found ", Quoted(text));
    return "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator AsBytes(uint64_t least) {
  const auto check = [least](std::string& text) -> std::string {
    const std::optional<uint64_t> value = ParseBytes(text);
    if (!value) return Cat("expected a size such as 64M or 2GiB, found ", Quoted(text));
    if (*value < least)
      return Cat("expected at least ", LeastSize(least), ", found ", Quoted(text));
    text = std::to_string(*value);
    return "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator OneOf(std::vector<std::string> words) {
  const std::string offers = kOffers + moepack::Join(words, kBetweenOffers);
  const auto check = [words = std::move(words)](std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return "";
    return WithHint(NotOneOf("", words, text));
  };
  return CLI::Validator(check, "").name(offers);
}

void Offer(CLI::Option* option, const std::vector<std::string>& words) {
  const auto accept = [](std::string&) { return std::string(); };
  option->check(CLI::Validator(accept, "").name(kOffers + moepack::Join(words, kBetweenOffers)));
}

std::vector<std::string> OfferedWords(const CLI::Option& option) {
  // The parser lends its validators only to be changed, and tells their number only by what it
  // throws behind the last one.
  auto& lent = const_cast<CLI::Option&>(option);
  try {
    for (int i = 0;; ++i) {
      const std::string& name = lent.get_validator(i)->get_name();
      if (name.starts_with(kOffers))
        return moepack::Split(name.substr(std::string_view(kOffers).size()), kBetweenOffers[0]);
    }
  } catch (const CLI::OptionNotFound&) {
    return {};
  }
}

CLI::Validator AsUtf8() {
  const auto check = [](const std::string& text) -> std::string {
    return IsUtf8(text) ? "" : Cat("expected UTF-8, found ", Quoted(text));
  };
  return CLI::Validator(check, "");
}

void AddModelOptions(CLI::App& app, ModelOptions& options) {
  StartSection(app, "Input");
  app.add_option("--family", options.family_file,
                 "Classify tensors with this table (JSON) instead of the built-in families.")
      ->type_name("FILE");
  app.add_option("--config", options.config_file,
                 "Read the config of a safetensors model from here instead of config.json beside "
                 "it.")
      ->type_name("FILE");
}

void AddNamedFiles(const ModelOptions& options, std::vector<std::string>& files) {
  files.insert(files.end(), {options.family_file, options.config_file});
}

void AddOverlay(CLI::App& app, const char* help, OverlayArguments& arguments) {
  app.add_option_function<std::string>(
         "--overlay",
         [&arguments](const std::string& text) {
           arguments.none = text == kNoOverlay;
           arguments.version = arguments.none ? "" : text;
         },
         help)
      ->type_name("VERSION");
}

void AddSource(CLI::App& app, SourceArguments& arguments, const char* more) {
  app.add_option("SRC", arguments.source,
                 Cat("The checkpoint: a directory of safetensors files, with or without an index, "
                     "one .safetensors file, or a GGUF (any part of a split set, or its "
                     "directory); of this machine, or at ",
                     remote::AddressForms(), ".", more))
      ->required();
  AddModelOptions(app, arguments.model);
  AddRemoteOptions(app, arguments.remote);
}

std::string SourceArguments::shown() const { return WithoutSecrets(source); }

Result<MoeModel> OpenModel(const moepack::Source& source, const SourceArguments& arguments) {
  SHARD_TRY(MoeModel model, OpenWithProgress(source, arguments.model));
  PrintWarnings(model.warnings());
  return model;
}

Result<MoeModel> OpenModel(const SourceArguments& arguments) {
  SHARD_TRY(const moepack::Source source, OpenSource(arguments.source, arguments.remote));
  return OpenModel(source, arguments);
}

void AddJobs(CLI::App& app, size_t& jobs) {
  StartSection(app, "Resources");
  app.add_option("-j,--jobs", jobs,
                 "Threads that read, write, check and encode. Default: twice the cores. The result "
                 "is the same for every number.")
      ->type_name("N")
      ->transform(AsCount(1, kMaxJobs));
}

void AddMemory(CLI::App& app, uint64_t& memory) {
  StartSection(app, "Resources");
  app.add_option("--memory", memory, "Upper bound for buffers: 64M, 1GiB. Default: 64MiB.")
      ->type_name("SIZE")
      ->transform(AsBytes(kLeastMemory));
}

void AddChunkMap(CLI::App& app, uint64_t& cell_bytes) {
  app.add_flag_callback(
      "--chunk-map", [&cell_bytes] { cell_bytes = kMapCellBytes; },
      "Record the SHA-256 of every 64 MiB of large bundles in distribution.json, so that only the "
      "corrupt pieces of a download are fetched again. Hashes every byte twice.");
}

void AddJson(CLI::App& app, bool& json) {
  StartSection(app, "General");
  app.add_flag("--json", json, "Print one JSON document on standard output.");
}

void AddDryRun(CLI::App& app, bool& dry_run) {
  StartSection(app, "General");
  app.add_flag("--dry-run", dry_run,
               "Write nothing; print what would be written, with exact sizes.");
}

void AddTensors(CLI::App& app, bool& tensors) {
  StartSection(app, "General");
  app.add_flag("--tensors", tensors,
               "With --dry-run: also print the GGUF name, the type and the rule that chose it, of "
               "every tensor. docs/quantization.md has the rules.")
      ->needs(app.get_option("--dry-run"));
}

void AddForce(CLI::App& app, bool& force) {
  StartSection(app, "Output");
  app.add_flag("--force", force, "Replace the output if it exists.");
}

void AddPlanOptions(CLI::App& app, PlanOptions& options) {
  StartSection(app, "Split");
  app.add_option("--groups", options.groups,
                 "Number of expert groups: one per node. Needed unless the file of --partition "
                 "lists them.")
      ->type_name("N")
      ->transform(AsCount(1, kMaxGroups));
  AddDivision(app, options);
}

void AddPlanOptions(CLI::App& app, PlanOptions& options, std::vector<uint32_t>& groups) {
  StartSection(app, "Split");
  app.add_option_function<std::string>(
         "--groups",
         [&](const std::string& text) {
           for (const std::string& number : moepack::Split(text, ','))
             groups.push_back(static_cast<uint32_t>(*ParseUint(number)));
           options.groups = groups.front();
         },
         "Number of expert groups: one per node. Needed unless the file of --partition lists them. "
         "Several numbers, as in 2,4,8, are compared with one partition, and no plan is written.")
      ->type_name("N,...")
      ->check(GroupCountsProblem);
  AddDivision(app, options);
}

void AddNamedFiles(const PlanOptions& options, std::vector<std::string>& files) {
  files.insert(files.end(), {options.overlay_file, options.pin_file});
  files.insert(files.end(), options.statistics_files.begin(), options.statistics_files.end());
  const auto choice = ParsePartition(PartitionOf(options));
  if (choice) files.push_back(choice->file);
}

Status CheckPlanOptions(const PlanOptions& options) {
  SHARD_CHECK(CheckStatisticsOptions(options));
  SHARD_TRY(const PartitionChoice choice, ParsePartition(PartitionOf(options)));
  if (options.groups > 0 || choice.partition->takes_file) return Ok();
  return Error{Code::kInvalidArgument, "--groups is required",
               "one group per node: try --groups 2"};
}

Status CheckRecorded(const std::vector<std::string>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (IsUtf8(words[i])) continue;
    return Error{Code::kInvalidArgument,
                 Cat(words[i - 1], ": expected UTF-8, found ", Quoted(words[i])),
                 "distribution.json records it, and JSON is UTF-8: give the file another name"};
  }
  return Ok();
}

std::vector<std::string> RecordPlanOptions(const PlanOptions& options) {
  std::vector<std::string> words = {"--groups", std::to_string(options.groups), "--partition"};
  const std::string partition = PartitionOf(options);
  const auto choice = ParsePartition(partition).value();  // checked as it was read
  // Without directories: distribution.json must not depend on where files were.
  words.push_back(choice.file.empty() ? partition
                                      : Cat(choice.partition->name, ":", FileName(choice.file)));
  if (!options.overlay_file.empty()) {
    words.insert(words.end(), {"--overlay-file", FileName(options.overlay_file)});
  }
  words.push_back(options.uniform ? "--uniform" : "--no-uniform");
  const std::vector<std::string> more = RecordStatisticsOptions(options);
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace moepack::cli
