// From argv to a command and its exit status; every error ends here.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>

#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/complete.h"
#include "tools/help.h"
#include "tools/options/standard_input.h"

namespace moepack::cli {
namespace {

int Finish(const Result<int>& result) {
  if (result.has_value()) return *result;
  PrintError(result.error());
  return ExitCode(result.error().code);
}

int PrintText(const std::string& text) {
  if (const Status written = WriteResult(text); !written) return Finish(written.error());
  return kExitDone;
}

// What other programs call it, and what fits here.
struct OtherWord {
  std::string_view word;
  const char* hint;
};
constexpr OtherWord kOtherWords[] = {
    {"shard", "`moepack build` splits a model, `moepack shard-experts` keeps its types"},
    {"convert", "`moepack quantize` writes GGUF, `moepack statistics convert` other statistics"},
    {"export", "`moepack quantize` writes GGUF, `moepack assemble` a node that a runtime loads"},
    {"merge", "`moepack join` puts parts of a distribution together"},
    {"show", "`moepack list-tensors` shows a model, `moepack inspect` what is published"},
    {"validate",
     "`moepack check` compares a model with its config, `moepack verify` a "
     "distribution with its digests"},
    {"test", "`moepack verify` checks digests, `moepack eval` what the split costs"},
    {"compare", "`moepack diff` compares two distributions"},
    {"upload", "`moepack publish` sends to a registry"},
    {"download", "`moepack pull` fetches from a registry"},
    {"fetch", "`moepack pull` fetches from a registry"},
    {"imatrix", "`moepack profile` measures an importance matrix"},
    {"perplexity", "`moepack eval` measures perplexity and divergence"},
    {"generate", "`moepack run` generates text"},
};

constexpr const char* kVersionHint = "`moepack --version` prints the version";

// `options` are those that stand in the place of a command.
Error UnknownCommand(Commands commands, std::string_view name,
                     const std::vector<std::string>& options) {
  if (name.starts_with("-")) {
    const std::string hint = DidYouMean(name.substr(0, name.find('=')), options);
    return {Code::kInvalidArgument, Cat("unknown option ", Quoted(name)),
            hint.empty() ? "options follow the command; `moepack help` lists the commands" : hint};
  }
  std::vector<std::string> known = {"help", "version"};
  for (const Alias& alias : kAliases) known.emplace_back(alias.name);
  for (const ListedCommand& listed : commands) known.emplace_back(listed.command->name);
  std::string hint = DidYouMean(name, known);
  for (const OtherWord& other : kOtherWords) {
    if (hint.empty() && Lower(name) == other.word) hint = other.hint;
  }
  return {Code::kInvalidArgument, Cat("unknown command ", Quoted(name)),
          hint.empty() ? "`moepack help` lists the commands" : hint};
}

// Options that no longer exist, and what to do instead.
struct RemovedOption {
  std::string_view command, option;
  const char* instead;
};
constexpr RemovedOption kRemovedOptions[] = {
    {"verify", "--no-mtp",
     "leave it out: verify reads in distribution.json whether those blocks were left out"},
};

const char* InsteadOf(std::string_view command, std::string_view option) {
  for (const RemovedOption& removed : kRemovedOptions) {
    if (removed.command == command && removed.option == option) return removed.instead;
  }
  return nullptr;
}

// What other programs, and other commands of this one, call an option; where there are several
// rows, those count whose option the command has. SRC and DIST are arguments.
struct OtherOption {
  std::string_view word;
  const char* option;
};
constexpr OtherOption kOtherOptions[] = {
    {"--nodes", "--groups"},
    {"--num-nodes", "--groups"},
    {"--num-groups", "--groups"},
    {"--shards", "--groups"},
    {"--num-shards", "--groups"},
    {"--tensor-parallel-size", "--groups"},
    {"--type", "--recipe"},
    {"--quantization", "--recipe"},
    {"--outtype", "--recipe"},
    {"--ftype", "--recipe"},
    {"--dtype", "--recipe"},
    {"--bits", "--recipe"},
    {"--q-bits", "--recipe"},
    {"--outfile", "--output"},
    {"--out", "--output"},
    {"--local-dir", "--output"},
    {"--mlx-path", "--output"},
    {"--output-format", "--format"},
    {"--max-shard-size", "--max-part-size"},
    {"--split-max-size", "--max-part-size"},
    {"--ctx-size", "--context"},
    {"--max-model-len", "--context"},
    {"-c", "--context"},
    {"--n-predict", "--count"},
    {"--max-tokens", "--count"},
    {"--max-new-tokens", "--count"},
    {"--threads", "--jobs"},
    {"--workers", "--jobs"},
    {"--parallel", "--jobs"},
    {"-t", "--jobs"},
    {"-t", "--threads"},
    {"--max-memory", "--memory"},
    {"--ram", "--memory"},
    {"--backend", "--executor"},
    {"--gpu", "--executor"},
    {"-ngl", "--executor"},
    {"--n-gpu-layers", "--executor"},
    {"--calibration-data", "--text"},
    {"--dataset", "--text"},
    {"--file", "--text"},
    {"-f", "--text"},
    {"--importance-matrix", "--imatrix"},
    {"--stats", "--statistics"},
    {"--strategy", "--partition"},
    {"--strategy", "--strategies"},
    {"--overwrite", "--force"},
    {"--replace", "--force"},
    {"--skip-verify", "--no-verify"},
    {"--silent", "--quiet"},
    {"--ca-file", "--cacert"},
    {"--cert-file", "--client-cert"},
    {"--key-file", "--client-key"},
    {"--branch", "--revision"},
    {"--model", "SRC"},
    {"--input", "SRC"},
    {"-m", "SRC"},
    {"--model", "DIST"},
    {"--input", "DIST"},
    {"-m", "DIST"},
};

std::string OptionOfOthers(const CLI::App& app, std::string_view word) {
  for (const OtherOption& other : kOtherOptions) {
    if (other.word != word || app.get_option_no_throw(other.option) == nullptr) continue;
    if (other.option[0] == '-') return Cat("did you mean ", other.option, "?");
    return Cat(other.option, " is given without an option");
  }
  return "";
}

// The closest option. --version belongs to the program, and is only looked at when nothing else
// fits.
std::string OptionMeant(const CLI::App& app, const std::string& word) {
  std::string hint = OptionOfOthers(app, word);
  if (!hint.empty()) return hint;
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  hint = DidYouMean(word, known);
  if (hint.empty() && !ClosestWord(word, {"--version"}).empty()) hint = kVersionHint;
  return hint;
}

// A flag is given or not. The parser would read "--force=false" as none, and "--force=5" as given.
Status CheckFlags(const CLI::App& app, int argc, const char* const* argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view argument = argv[i];
    const size_t equals = argument.find('=');
    if (!argument.starts_with("--") || equals == argument.npos) continue;
    const std::string name(argument.substr(0, equals));
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr || option->get_items_expected_max() > 0) continue;
    return Error{Code::kInvalidArgument,
                 Cat(name, ": expected no value, found ", Quoted(argument.substr(equals + 1))),
                 Cat(name, " is a flag: give it alone, or leave it out")};
  }
  return Ok();
}

// The first of the arguments that the parser could not place.
Error UnexpectedArgument(const Command& command, const CLI::App& app, const std::string& argument) {
  if (!argument.starts_with("-"))
    return {Code::kInvalidArgument, Cat("unexpected argument ", Quoted(argument))};
  const std::string option = argument.substr(0, argument.find('='));
  if (const char* instead = InsteadOf(command.name, option); instead != nullptr)
    return {Code::kInvalidArgument, Cat("option ", option, " has been removed"), instead};
  return {Code::kInvalidArgument, Cat("unknown option ", Quoted(argument)),
          OptionMeant(app, option)};
}

// The parser's words for what is wrong with an option, and ours. A message reads
// "<option><before><words><after>".
struct Wording {
  std::string_view before, after;
  const char* ours;
  const char* our_end;
};
constexpr Wording kWordings[] = {
    {" excludes ", "", " and ", " cannot be used together"},
    {" requires ", "", " needs ", ""},
    {": At Most 1 required but received ", "", " was given ", " times; it can be given once"},
    {": 1 required ", " missing", " needs a value: ", ""},
};

std::string InOurWords(const std::string& message) {
  for (const Wording& wording : kWordings) {
    const size_t at = message.find(wording.before);
    if (at == message.npos || !message.ends_with(wording.after)) continue;
    std::string words = message.substr(at + wording.before.size());
    words.resize(words.size() - wording.after.size());
    return Cat(message.substr(0, at), wording.ours, words, wording.our_end);
  }
  return message;
}

// The parser would use the last of --uniform and --no-uniform.
Status CheckSwitches(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> off = option->get_fnames();
    const CLI::results_t& given = option->results();
    if (off.empty() || given.empty()) continue;
    const auto differs = [&](const std::string& value) { return value != given.front(); };
    if (std::any_of(given.begin(), given.end(), differs))
      return Error{Code::kInvalidArgument,
                   Cat(option->get_name(), " and --", off.front(), " cannot be used together")};
  }
  return Ok();
}

// An empty value, such as that of an unset variable of a shell, would count as none given.
Status CheckValues(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const CLI::results_t& given = option->results();
    const auto empty = [](const std::string& value) { return value.empty(); };
    if (std::none_of(given.begin(), given.end(), empty)) continue;
    return Error{Code::kInvalidArgument,
                 Cat(option->get_name(), ": expected a value, found an empty one"),
                 option->get_required() ? "" : "leave it out, or give it a value"};
  }
  return Ok();
}

// Called while the parser's exception is being handled.
Error ParseFailure(const Command& command, const CLI::App& app, const CLI::ParseError& error) {
  // Everything else that is wrong or missing may follow from a misspelled option.
  const std::vector<std::string> extras = app.remaining();
  for (const std::string& extra : extras) {
    if (extra.size() > 1 && extra.starts_with("-")) return UnexpectedArgument(command, app, extra);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extras.empty())
    return UnexpectedArgument(command, app, extras.front());
  std::string message = error.what();
  while (message.ends_with('\n')) message.pop_back();
  const size_t hint = message.find('\n');  // of WithHint; values in messages are quoted
  if (hint == message.npos) return {Code::kInvalidArgument, InOurWords(message)};
  return {Code::kInvalidArgument, InOurWords(message.substr(0, hint)), message.substr(hint + 1)};
}

int UsageFailure(const Command& command, const CLI::App& app, Error error) {
  if (error.hint.empty()) error.hint = Cat("`moepack help ", command.name, "` has two examples");
  PrintError(std::move(error).Within(command.name));
  PrintMessage(UsageLine(command, app));
  return kExitUsage;
}

int RunCommand(const Command& command, int argc, const char* const* argv) {
  CLI::App app;
  StartSection(app, "General");
  AddHelpOptions(app);
  const auto run = command.bind(app);
  SharedOptions shared;
  AddSharedOptions(app, shared);
  if (const Status flags = CheckFlags(app, argc, argv); !flags)
    return UsageFailure(command, app, flags.error());
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return PrintText(HelpText(command));
  } catch (const CLI::CallForAllHelp&) {
    return PrintText(FullHelpText(command));
  } catch (const CLI::ParseError& parse_error) {
    return UsageFailure(command, app, ParseFailure(command, app, parse_error));
  }
  if (const Status switches = CheckSwitches(app); !switches) {
    return Finish(Error(switches.error()).Within(command.name));
  }
  if (const Status values = CheckValues(app); !values) {
    return Finish(Error(values.error()).Within(command.name));
  }
  if (const Status input = CheckStandardInput(app); !input) {
    return Finish(Error(input.error()).Within(command.name));
  }
  if (shared.quiet) BeQuiet();
  const int status = Finish(run());
  if (!shared.strict || status != kExitDone || WarningCount() == 0) return status;
  return Finish(Error{Code::kMismatch,
                      Cat(command.name, ": finished with ", Plural(WarningCount(), "warning"),
                          ", which --strict does not allow", FirstWarning())});
}

int RunHelp(Commands commands, int argc, const char* const* argv) {
  if (argc == 0) return PrintText(OverviewText(commands));
  const std::string_view topic = argv[0];
  if (argc > 1)
    return Finish(Error{Code::kInvalidArgument, Cat("unexpected argument ", Quoted(argv[1])),
                        "`moepack help` lists the commands"});
  if (topic == "--markdown") return PrintText(MarkdownReference(commands));
  if (topic == "help" || topic == "--help" || topic == "-h" || topic == "version")
    return PrintText(OverviewText(commands));
  const Command* command = FindCommand(commands, topic);
  if (command == nullptr) return Finish(UnknownCommand(commands, topic, {"--markdown", "--help"}));
  return PrintText(FullHelpText(*command));
}

}  // namespace

void AddHelpOptions(CLI::App& app) {
  app.set_help_flag("-h", "Print the options that matter most, on one screen.");
  app.set_help_all_flag("--help", "Print this help.");
}

void AddSharedOptions(CLI::App& app, SharedOptions& options) {
  StartSection(app, "General");
  app.add_flag("-q,--quiet", options.quiet,
               "Print errors and one line that says the result, or the document that --json, "
               "--format and the like ask for, and nothing else.");
  app.add_flag("--strict", options.strict,
               "Exit with status 6 if there were warnings, even though the work was done.");
}

const Command* FindCommand(Commands commands, std::string_view name) {
  for (const Alias& alias : kAliases) {
    if (alias.name == name) name = alias.command;
  }
  for (const ListedCommand& listed : commands) {
    if (listed.command->name == name) return listed.command;
  }
  return nullptr;
}

int RunCommandLine(Commands commands, int argc, const char* const* argv) {
  if (argc < 2) {
    PrintMessage(OverviewText(commands));
    return kExitUsage;
  }
  const std::string_view name = argv[1];
  if (name == "--version" || name == "-V" || name == "version") return PrintText(VersionText());
  if (name == "help" || name == "--help" || name == "-h")
    return RunHelp(commands, argc - 2, argv + 2);
  if (name == kCompleteVerb) return PrintText(CompletionText(commands, {argv + 2, argv + argc}));
  const Command* command = FindCommand(commands, name);
  if (command == nullptr) return Finish(UnknownCommand(commands, name, {"--help", "--version"}));
  return RunCommand(*command, argc - 1, argv + 1);
}

}  // namespace moepack::cli
