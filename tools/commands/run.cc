#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "libshard/base/text/json.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/devices/executors.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/base/utf8_stream.h"
#include "tools/options/node_load.h"
#include "tools/options/options.h"
#include "tools/options/runtime_options.h"
#include "tools/options/standard_input.h"
#include "tools/options/token_ids.h"
#include "tools/reports/runs/run_report.h"

namespace moepack::cli {
namespace run_command {
namespace {

// ---- --list-devices

// "0: llvmpipe", one per device; drivers name their devices, so the names are not ours.
std::vector<std::string> DevicesOf(const runtime::ExecutorKind& kind) {
  std::vector<std::string> lines = moepack::Split(kind.devices(), '\n');
  std::erase(lines, "");
  return lines;
}

// One line per device of each executor of this build, and why the others are missing.
std::string DevicesText() {
  std::string text;
  for (const runtime::ExecutorKind& kind : runtime::AllExecutorKinds()) {
    if (kind.missing != nullptr) {
      text += Cat(kind.name, ": not in this build: ", kind.missing, "\n");
      continue;
    }
    const std::vector<std::string> devices = DevicesOf(kind);
    if (devices.empty()) text += Cat(kind.name, ": no device\n");
    for (const std::string& device : devices) {
      text += Cat(kind.name, " ", Shown(device), "\n");
    }
  }
  return text;
}

std::string DevicesLine() {
  std::vector<std::string> counts;
  for (const runtime::ExecutorKind& kind : runtime::AllExecutorKinds()) {
    if (kind.missing == nullptr) counts.push_back(Cat(kind.name, " ", DevicesOf(kind).size()));
  }
  return Cat("devices: ", moepack::Join(counts, ", "));
}

Json DevicesJson() {
  Json executors = Json::array();
  for (const runtime::ExecutorKind& kind : runtime::AllExecutorKinds()) {
    Json devices = Json::array();
    if (kind.missing == nullptr) {
      for (const std::string& device : DevicesOf(kind)) {
        const size_t colon = device.find(": ");
        const std::string name = colon == device.npos ? device : device.substr(colon + 2);
        devices.push_back({{"device", devices.size()}, {"name", name}});
      }
    }
    executors.push_back({{"executor", kind.name},
                         {"missing", kind.missing == nullptr ? Json(nullptr) : Json(kind.missing)},
                         {"devices", std::move(devices)}});
  }
  return {{"executors", std::move(executors)}};
}

// ----

using runtime::Generation;
using runtime::Node;

constexpr uint64_t kMaxCount = 1u << 24;

struct Arguments : RuntimeArguments {
  std::string prompt, tokens;
  bool has_prompt = false, has_tokens = false;
  uint32_t count = 64, context = 0;
  runtime::Sampling sampling;
  std::string compare;
  std::optional<double> tolerance;
  bool list_devices = false, json = false;
};

class Stopwatch {
 public:
  double seconds() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    return passed.count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Status CheckArguments(const Arguments& arguments) {
  const auto bad = [](const char* message) { return Error{Code::kInvalidArgument, message}; };
  if (arguments.source.empty()) return bad("run: SRC is required");
  if (!arguments.has_prompt && !arguments.has_tokens)
    return bad("run: --prompt or --tokens is required");
  if (!arguments.compare.empty() && arguments.sampling.temperature > 0)
    return bad("--compare follows the greedy tokens: it cannot be used with a --temperature");
  if (arguments.has_tokens) SHARD_CHECK(ReadTokenIds("--tokens", arguments.tokens));
  return CheckSampling(arguments.sampling);
}

Result<std::vector<uint32_t>> PromptTokens(const Arguments& arguments, const Node& node) {
  if (arguments.has_tokens) return ReadTokenIds("--tokens", arguments.tokens);
  Result<const runtime::Tokenizer*> tokenizer = node.tokenizer();
  if (!tokenizer) {
    Error error = tokenizer.error();
    if (error.hint.empty()) error.hint = "--tokens takes ids and needs no tokenizer";
    return error;
  }
  SHARD_TRY(const std::string prompt, ReadPrompt(arguments.prompt));
  return (*tokenizer)->Encode(prompt, runtime::Tokenizer::Options());
}

// Null if the model has none: then there are only ids.
const runtime::Tokenizer* TokenizerOf(const Node& node) {
  const auto tokenizer = node.tokenizer();
  return tokenizer ? *tokenizer : nullptr;
}

// Writes each token as it arrives, unless the result will be one JSON document.
class TokenWriter {
 public:
  TokenWriter(const runtime::Tokenizer* tokenizer, bool quiet)
      : tokenizer_(tokenizer), quiet_(quiet) {}

  Status Write(uint32_t id, GeneratedText& generated) {
    const std::string piece = tokenizer_ == nullptr
                                  ? Cat(generated.tokens.size() == 1 ? "" : " ", id)
                                  : tokenizer_->Piece(id);
    generated.text += piece;
    return Print(stream_.Add(piece));
  }
  Status End() { return Print(stream_.Rest() + "\n"); }

 private:
  Status Print(const std::string& text) { return quiet_ ? Ok() : WriteResult(text); }

  const runtime::Tokenizer* tokenizer_;
  bool quiet_;
  Utf8Stream stream_;
};

Status GenerateTokens(const Arguments& arguments, const Node& node, Generation& generation,
                      ProgressCount& counter, GeneratedText& generated) {
  // On a terminal the text itself shows the progress.
  if (!arguments.json && isatty(STDOUT_FILENO) == 1) counter.Hide();
  const runtime::Tokenizer* tokenizer = TokenizerOf(node);
  TokenWriter writer(tokenizer, arguments.json);
  generated.stop = "length";
  while (generated.tokens.size() < arguments.count) {
    if (generation.full()) {
      generated.stop = "context";
      break;
    }
    SHARD_TRY(const runtime::NextToken next, generation.Decode());
    generated.tokens.push_back(next);
    if (tokenizer != nullptr && tokenizer->IsEnd(next.id)) {
      generated.stop = "end";
      break;
    }
    SHARD_CHECK(writer.Write(next.id, generated));
  }
  return writer.End();
}

Result<int> Generate(const Arguments& arguments, const Node& node, std::vector<uint32_t> prompt) {
  runtime::SessionOptions options;
  options.context = arguments.context;
  ProgressCount counter("running", ProgressUnit::kTokens,
                        prompt.size() + uint64_t{arguments.count});
  options.fed = [&](size_t tokens) { counter.Add(tokens); };
  SHARD_TRY(const std::unique_ptr<Generation> generation,
            node.OpenGeneration(options, arguments.sampling));
  GeneratedText generated;
  const Stopwatch whole;
  SHARD_CHECK(generation->Prefill(prompt));
  generated.prompt_seconds = whole.seconds();
  generated.prompt = std::move(prompt);
  SHARD_CHECK(GenerateTokens(arguments, node, *generation, counter, generated));
  counter.Hide();
  generated.seconds = whole.seconds() - generated.prompt_seconds;
  PrintMessage(GeneratedSummary(generated));
  if (!arguments.json) return kExitDone;
  Json document = {{"source", arguments.source},
                   {"group", arguments.group ? Json(*arguments.group) : Json(nullptr)},
                   {"loaded", LoadedJson(node)}};
  document.update(GeneratedJson(generated));
  SHARD_CHECK(WriteJsonResult(document));
  return kExitDone;
}

// Both get the prompt and then the greedy tokens of the first.
Status StepBoth(const Arguments& arguments, const std::vector<uint32_t>& prompt,
                runtime::Session& first, runtime::SideBySide& both) {
  SHARD_CHECK(both.Feed(prompt));
  for (uint32_t i = 0; i < arguments.count && first.length() < first.context(); ++i) {
    const uint32_t next = runtime::GreedyToken(both.logits());
    SHARD_CHECK(both.Feed(std::span(&next, 1)));
  }
  return Ok();
}

Result<int> Compare(const Arguments& arguments, const Node& node,
                    const std::vector<uint32_t>& prompt) {
  runtime::NodeOptions other = arguments;
  other.executor = arguments.compare;
  other.load.verify = false;  // the first node did that
  SHARD_TRY(const std::unique_ptr<Node> second, OpenNode(arguments.source, other));
  PrintMessage(Cat(second->executor().name(), ": ", Shown(second->executor().description())));
  runtime::SessionOptions options;
  options.context = arguments.context;
  ProgressCount counter("comparing", ProgressUnit::kTokens,
                        2 * (prompt.size() + uint64_t{arguments.count}));
  options.fed = [&](size_t tokens) { counter.Add(tokens); };
  SHARD_TRY(const std::unique_ptr<runtime::Session> expected, node.OpenSession(options));
  SHARD_TRY(const std::unique_ptr<runtime::Session> actual, second->OpenSession(options));
  runtime::SideBySide both(*expected, *actual, std::numeric_limits<double>::infinity());
  SHARD_CHECK(StepBoth(arguments, prompt, *expected, both));
  counter.Hide();
  const ComparedRuns runs{arguments.executor, arguments.compare, prompt.size(), both.findings(),
                          arguments.tolerance};
  SHARD_CHECK(arguments.json ? WriteJsonResult(ComparedJson(runs))
                             : WriteReport(ComparedText(runs, TokenizerOf(node))));
  return runs.passed() ? kExitDone : kExitMismatch;
}

// Checked before anything is loaded: that there is such an executor, with a device.
Status CheckCompare(const Arguments& arguments) {
  if (arguments.compare.empty()) return Ok();
  const auto executor = runtime::OpenExecutor(arguments.compare, arguments.device);
  if (!executor) return Error(executor.error()).Within("--compare");
  return Ok();
}

Result<int> Run(const Arguments& arguments) {
  if (arguments.list_devices) {
    SHARD_CHECK(arguments.json ? WriteJsonResult(DevicesJson())
                               : WriteReport(DevicesText(), DevicesLine()));
    return kExitDone;
  }
  SHARD_CHECK(CheckArguments(arguments));
  SHARD_CHECK(CheckRuntimeOptions(arguments.source, arguments, ""));
  SHARD_CHECK(CheckCompare(arguments));
  StopBetweenPieces();
  SHARD_TRY(const std::unique_ptr<Node> node, OpenNode(arguments.source, arguments));
  PrintNotes(node->weights().notes);
  std::string loaded = LoadedText(*node);
  loaded.pop_back();
  PrintMessage(loaded);
  SHARD_TRY(std::vector<uint32_t> prompt, PromptTokens(arguments, *node));
  if (!arguments.compare.empty()) return Compare(arguments, *node, prompt);
  return Generate(arguments, *node, std::move(prompt));
}

void AddSampling(CLI::App& app, runtime::Sampling& sampling) {
  app.add_option(
         "--temperature", sampling.temperature,
         "Pick tokens at random; a higher T makes the choice more even. Default: 0, which always "
         "picks the most likely token, whatever the next four options say.")
      ->type_name("T");
  app.add_option("--top-k", sampling.top_k, "Pick among the K most likely tokens. Default: all.")
      ->type_name("K")
      ->transform(AsCount(1, std::numeric_limits<uint32_t>::max()));
  app.add_option("--top-p", sampling.top_p,
                 "Pick among the fewest tokens whose probabilities reach P. Default: 1.")
      ->type_name("P");
  app.add_option("--min-p", sampling.min_p,
                 "Pick among tokens with at least P times the probability of the most likely "
                 "one. Default: 0.")
      ->type_name("P");
  app.add_option("--seed", sampling.seed,
                 "Seed of the random choice: the same seed gives the same tokens. Default: 0.")
      ->type_name("N")
      ->transform(AsCount(0, std::numeric_limits<uint64_t>::max()));
  for (const char* name : {"--top-k", "--top-p", "--min-p", "--seed"})
    app.get_option(name)->needs(app.get_option("--temperature"));
}

// REQUIRES: all options have been added except those that go with it.
void AddListDevices(CLI::App& app, bool& list_devices) {
  const std::vector<CLI::Option*> others = app.get_options({});
  StartSection(app, "Resources");
  CLI::Option* list =
      app.add_flag("--list-devices", list_devices,
                   "Only print the devices of every executor. Can be combined with --json only.");
  for (CLI::Option* other : others) {
    if (other != app.get_help_ptr() && other != app.get_help_all_ptr()) list->excludes(other);
  }
}

void AddCompare(CLI::App& app, Arguments& arguments) {
  StartSection(app, "Checks");
  CLI::Option* compare =
      app.add_option("--compare", arguments.compare,
                     "Also run this executor on the same tokens, and report where the two diverge.")
          ->type_name("EXECUTOR");
  Offer(compare, OfferedWords(*app.get_option("--executor")));
  app.add_option("--tolerance", arguments.tolerance,
                 "With --compare: exit with status 6 when logits differ by more than this share of "
                 "the largest logit.")
      ->type_name("X")
      ->needs(app.get_option("--compare"))
      ->check(AsTolerance());
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddRuntimeSource(app, "SRC", kAnySource, arguments->source, *arguments);
  app.get_option("SRC")->required(false);  // not needed with --list-devices
  AddGroup(app, "Run as the node of this expert group: with its experts and the overlay's.",
           arguments->group);
  StartSection(app, "Text");
  CLI::Option* prompt =
      app.add_option("--prompt", arguments->prompt, "The text to continue; - is standard input.")
          ->type_name("TEXT");
  CLI::Option* tokens = app.add_option("--tokens", arguments->tokens,
                                       "The prompt as token ids, such as 12,7,9, or the name of a "
                                       "file of ids; - is standard input. Nothing is added before "
                                       "them.")
                            ->type_name("IDS|FILE")
                            ->excludes(prompt);
  StartSection(app, "Generation");
  app.add_option("-n,--count", arguments->count, "Tokens to generate at most. Default: 64.")
      ->type_name("N")
      ->transform(AsCount(0, kMaxCount));
  AddSampling(app, arguments->sampling);
  AddContext(app, "Default: 4096, or the model's own if that is less.", arguments->context);
  AddExecutor(app, *arguments);
  AddCompare(app, *arguments);
  AddListDevices(app, arguments->list_devices);
  AddJson(app, arguments->json);
  arguments->load.not_pulled_hint =
      "choose among these with --group and --overlay, or pull the others, too";
  return [arguments, prompt, tokens] {
    arguments->has_prompt = prompt->count() > 0;
    arguments->has_tokens = tokens->count() > 0;
    return Run(*arguments);
  };
}

}  // namespace
}  // namespace run_command

constinit const Command kRun = {
    "run",
    "Generates a few tokens with one node's part, or a whole model",
    "Loads what a node would load, masks the routers to it, and writes what the model makes of "
    "the prompt, token by token. What was loaded goes to standard error. It is for looking at a "
    "bundle, not for serving: one sequence, no batching. With --compare it steps two executors "
    "side by side and says where they diverge. Control characters of the text are shown as \\x1b, "
    "but its lines are the model's own: one may begin with ::, which a GitHub runner would treat "
    "as a command. Use --json in a workflow.",
    {"moepack run out --group 1 --prompt \"int main(\" -n 16",
     "moepack run fixtures/tiny-moe --prompt \"The license\" --compare cpu -n 4"},
    {"--group", "--prompt", "--tokens", "--count", "--temperature", "--seed", "--context",
     "--executor", "--compare", "--list-devices"},
    run_command::Bind};

}  // namespace moepack::cli
