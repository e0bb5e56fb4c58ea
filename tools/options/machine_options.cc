#include "tools/options/machine_options.h"

#include <CLI/CLI.hpp>

#include "libshard/base/text/text.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"

namespace moepack::cli {
namespace {

constexpr uint64_t kMaxTokens = 1u << 30;
constexpr uint64_t kMaxSessions = 1u << 20;
constexpr uint32_t kMaxStages = 4096;

CLI::Validator AsTokens() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const auto tokens = ParseTokens(text);
        if (!tokens) return Cat("expected tokens such as 4096 or 32k, found ", Quoted(text));
        text = std::to_string(*tokens);
        return "";
      },
      "");
}

std::string CacheTypeProblem(const std::string& text) {
  const auto type = CacheType(text);
  return type ? "" : WithHint(type.error());
}

std::string NodeProblem(const std::string& text) {
  const auto nodes = ParseNodes({text});
  return nodes ? "" : nodes.error().message.substr(std::string_view("--node: ").size());
}

// "16GB x3" -> {"16GB", 3}; without "x", once.
struct RepeatedSize {
  std::string size;
  std::optional<uint64_t> times = 1;
};
RepeatedSize SplitTimes(const std::string& text) {
  const size_t x = Lower(text).rfind('x');
  if (x == std::string::npos) return {text, 1};
  std::string size = text.substr(0, x);
  while (size.ends_with(' ')) size.pop_back();
  return {size, ParseUint(std::string_view(text).substr(x + 1))};
}

Error NoEffect(const char* option, const char* why, const char* hint) {
  return {Code::kInvalidArgument, Cat(option, " has no effect ", why), hint};
}

void AddCacheOptions(CLI::App& app, MachineArguments& arguments) {
  app.add_option("--context", arguments.context,
                 "Count the cache of sessions of this many tokens: 4096, 32k. Default with --node: "
                 "4096.")
      ->type_name("TOKENS")
      ->transform(AsTokens());
  app.add_option("--sessions", arguments.sessions,
                 "Sessions that a node serves at a time, each with the whole context. Default: 1.")
      ->type_name("N")
      ->transform(AsCount(1, kMaxSessions));
  app.add_option("--kv-type", arguments.kv_type,
                 "Type of keys and values in the cache, as llama-server's --cache-type-k and "
                 "--cache-type-v. Default: f16.")
      ->type_name("TYPE")
      ->check(CLI::Validator(CacheTypeProblem, ""));
  app.add_option("--reserve", arguments.reserve,
                 "Keep this much of every machine free for the runtime's buffers and other uses. "
                 "Default: an estimate of the buffers (docs/planning.md).")
      ->type_name("SIZE")
      ->transform(AsBytes(0));
}

void AddSweepOptions(CLI::App& app, MachineArguments& arguments) {
  CLI::Option* sweep = app.add_flag(
      "--sweep", arguments.sweep,
      "Write no plan: compare the numbers of --groups (default: 1,2,3,4,6,8) and recipes, best "
      "first. --node says what one node has.");
  CLI::Option* recipes =
      app.add_option(
             "--recipes", arguments.recipes,
             "With --sweep: the recipes, or \"source\" for the source's own types. Default: "
             "these and some usual ones.")
          ->type_name("RECIPE,...")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->needs(sweep);
  Offer(recipes, RecipeNames());
  app.add_flag("--damage", arguments.damage,
               "With --sweep: read some rows of every matrix and measure how much noise each "
               "recipe adds to the result.")
      ->needs(sweep);
}

// What a sweep chooses itself or does not use.
void ExcludeFromSweep(CLI::App& app) {
  CLI::Option* sweep = app.get_option("--sweep");
  for (const char* name : {"--overlay-file", "--eligible", "--imatrix", "--allow-requantize",
                           "--repack", "--pre", "--mtp", "--alignment"}) {
    if (CLI::Option* option = app.get_option_no_throw(name)) sweep->excludes(option);
  }
  for (const char* name : TypeOptions()) sweep->excludes(app.get_option(name));
}

}  // namespace

void AddMachineOptions(CLI::App& app, MachineArguments& arguments) {
  StartSection(app, "Machines");
  CLI::Option* node =
      app.add_option("--node", arguments.nodes,
                     "Memory of one machine: 24GB. May be repeated, \"16GBx3\" is three of them. "
                     "One group per machine, which holds as many experts per layer as fit.")
          ->type_name("SIZE")
          ->allow_extra_args(false)
          ->check(CLI::Validator(NodeProblem, ""));
  if (CLI::Option* eligible = app.get_option_no_throw("--eligible")) node->excludes(eligible);
  AddCacheOptions(app, arguments);
  CLI::Option* stages =
      app.add_option(
             "--stages", arguments.stages,
             "Divide the layers of every node between this many machines that run one after "
             "the other; --node then names these machines.")
          ->type_name("N")
          ->transform(AsCount(1, kMaxStages));
  AddSweepOptions(app, arguments);
  app.get_option("--sweep")->excludes(stages);
  AddQuantizeOptions(app, arguments.quantize);
  ExcludeFromSweep(app);
}

std::optional<uint64_t> ParseTokens(std::string_view text) {
  const std::string lower = Lower(text);
  const uint64_t unit = lower.ends_with('k') ? 1u << 10 : lower.ends_with('m') ? 1u << 20 : 1;
  const auto number = ParseUint(std::string_view(lower).substr(0, lower.size() - (unit > 1)));
  if (!number || *number == 0 || *number > kMaxTokens / unit) return std::nullopt;
  return *number * unit;
}

Result<std::vector<uint64_t>> ParseNodes(const std::vector<std::string>& texts) {
  std::vector<uint64_t> nodes;
  for (const std::string& text : texts) {
    const RepeatedSize repeated = SplitTimes(text);
    const auto bytes = ParseBytes(repeated.size);
    if (!bytes || !repeated.times) {
      return Error{Code::kInvalidArgument,
                   Cat("--node: expected a size such as 24GB or 16GBx3, found ", Quoted(text))};
    }
    if (*bytes == 0) {
      return Error{Code::kInvalidArgument,
                   Cat("--node: expected a machine with memory, found ", Quoted(text))};
    }
    if (*repeated.times == 0 || *repeated.times > kMaxGroups - nodes.size()) {
      return Error{Code::kInvalidArgument,
                   Cat("--node: expected 1 to ", kMaxGroups, " machines, found ", Quoted(text))};
    }
    nodes.insert(nodes.end(), *repeated.times, *bytes);
  }
  return nodes;
}

Status CheckMachineOptions(const MachineArguments& arguments, uint32_t groups) {
  const bool sized =
      !arguments.nodes.empty() || arguments.context > 0 || arguments.sweep || arguments.stages > 0;
  if (!sized && arguments.reserve) {
    return NoEffect("--reserve", "without machines", "--node says what a machine has");
  }
  const bool cache = arguments.sessions != 1 || arguments.kv_type != "f16";
  if (arguments.nodes.empty() && arguments.context == 0 && cache) {
    return NoEffect(arguments.sessions != 1 ? "--sessions" : "--kv-type", "without a context",
                    "--context says how many tokens a session has");
  }
  SHARD_TRY(const std::vector<uint64_t> nodes, ParseNodes(arguments.nodes));
  if (arguments.sweep) {
    if (nodes.size() <= 1) return Ok();
    return Error{Code::kInvalidArgument,
                 Cat("--sweep: expected one machine of --node, found ", nodes.size()),
                 "a sweep shows what fits one machine; --groups says how many there are"};
  }
  const uint64_t expected = arguments.stages > 0 ? arguments.stages : groups;
  if (nodes.empty() || expected == 0 || nodes.size() == expected) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(arguments.stages > 0 ? "--stages " : "--groups ", expected, " and ",
                   Plural(nodes.size(), "machine"), " of --node contradict each other"),
               arguments.stages > 0 ? "--node names the machines of the stages, one for each"
                                    : "leave --groups out: every machine gets a group"};
}

Result<CacheUse> CacheUseOf(const MachineArguments& arguments) {
  CacheUse use;
  use.context = arguments.context > 0 ? arguments.context : kUsualContext;
  use.sessions = arguments.sessions;
  SHARD_TRY(use.type, CacheType(arguments.kv_type));
  return use;
}

Result<std::optional<QuantizeOptions>> TypesOf(const MachineArguments& arguments) {
  SHARD_TRY(QuantizeOptions options, ReadQuantizeOptions(arguments.quantize));
  if (!WantsTypes(arguments.quantize)) {
    if (options.alignment == kGgufDefaultAlignment) return std::optional<QuantizeOptions>();
    return NoEffect("--alignment", "without types", "name a recipe too, such as --recipe Q8_0");
  }
  return std::optional(std::move(options));
}

}  // namespace moepack::cli
