#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "libshard/base/text/text.h"
#include "manifest/document/node_record.h"
#include "runtime-shim/eval/race_groups.h"
#include "runtime-shim/session/placer.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/options/node_load.h"
#include "tools/options/options.h"
#include "tools/options/runtime_options.h"
#include "tools/options/session_texts.h"
#include "tools/options/standard_input.h"
#include "tools/reports/planning/place_report.h"

namespace moepack::cli {
namespace place_command {
namespace {

constexpr const char* kTable = "table";
constexpr const char* kProbe = "probe";
constexpr const char* kRace = "race";

struct Arguments {
  RuntimeArguments runtime;
  TextArguments texts;
  std::string prompt;
  bool has_prompt = false;
  std::string rule = kTable, fallback;
  std::string model_option;  // the first one given of the options for running a model
  bool json = false;

  bool runs_model() const { return rule != kTable || !fallback.empty(); }
};

// The table is opened at once, the model only when it is needed.
class Placing {
 public:
  explicit Placing(const Arguments& arguments) : arguments_(arguments) {}

  Status Open() {
    if (arguments_.rule != kTable) return OpenModel();
    auto placer = runtime::Placer::Open(arguments_.runtime.source);
    if (placer) {
      placer_ = *std::move(placer);
      return Ok();
    }
    const Error& error = placer.error();
    if (arguments_.fallback.empty() || error.code != Code::kInvalidArgument) return error;
    PrintNotes({Cat(error.message, "; asking the ", arguments_.fallback)});
    return OpenModel();
  }

  Result<std::vector<TokenSession>> Sessions() {
    const Tokenize tokenize = [&](std::string_view text) -> Result<std::vector<uint32_t>> {
      SHARD_TRY(const runtime::Tokenizer* tokenizer,
                placer_ ? placer_->tokenizer() : node_->tokenizer());
      return tokenizer->Encode(text, {});
    };
    if (!arguments_.has_prompt) return ReadSessions(arguments_.texts, Vocabulary(), tokenize);
    SHARD_TRY(const std::string prompt, ReadPrompt(arguments_.prompt));
    SHARD_TRY(std::vector<uint32_t> tokens, tokenize(prompt));
    return std::vector<TokenSession>{{"prompt", "", std::move(tokens)}};
  }

  Result<SessionPlace> Place(const TokenSession& session) {
    if (!placer_) return ByModel(session);
    SHARD_TRY(const PlacementAnswer answer, placer_->Place(session.tokens));
    if (!answer.sure && !arguments_.fallback.empty()) return ByModel(session);
    return PlaceByTable(session.name, answer);
  }

 private:
  // The model checks ids again, because it knows its vocabulary.
  uint32_t Vocabulary() const {
    if (!placer_) return node_->model().vocabulary();
    const auto tokenizer = placer_->tokenizer();
    return tokenizer ? (*tokenizer)->size() : kMaxStatisticsTokenId + 1;
  }

  Status OpenModel() {
    if (node_) return Ok();
    SHARD_TRY(node_, OpenNode(arguments_.runtime.source, arguments_.runtime));
    PrintNotes(node_->weights().notes);
    if (node_->weights().plan) return Ok();
    return manifest::HasNoGroups(arguments_.runtime.source);
  }

  Result<SessionPlace> ByModel(const TokenSession& session) {
    SHARD_CHECK(OpenModel());
    const std::optional<PlacementTable>& table = node_->weights().plan->placement;
    const uint32_t prefix = table ? table->prefix_tokens : kPlacementPrefix;
    // Nothing predicts the first token, and the probe excludes it.
    const auto tokens = std::span(session.tokens)
                            .first(std::min<size_t>(session.tokens.size(), size_t{prefix} + 1));
    const std::string& rule = arguments_.rule == kTable ? arguments_.fallback : arguments_.rule;
    if (rule == kRace) return ByRace(session.name, tokens, prefix);
    SHARD_TRY(const std::vector<double> scores, node_->ProbeScore(tokens, 0));
    return PlaceByProbe(session.name, scores, static_cast<uint32_t>(tokens.size()));
  }

  Result<SessionPlace> ByRace(const std::string& name, std::span<const uint32_t> tokens,
                              uint32_t prefix) {
    const runtime::Weights& weights = node_->weights();
    std::vector<uint32_t> groups;
    std::vector<LayerExperts> eligible;
    for (uint32_t group = 0; group < weights.plan->groups.size(); ++group) {
      if (!weights.FindGroup(group)) continue;
      groups.push_back(group);
      eligible.push_back(runtime::EligibleExperts(weights, group, arguments_.runtime.load.overlay));
    }
    SHARD_TRY(const runtime::RaceResult race,
              runtime::RaceGroups(node_->model(), eligible, tokens, prefix));
    return PlaceByRace(name, groups, race);
  }

  const Arguments& arguments_;
  std::unique_ptr<runtime::Placer> placer_;
  std::unique_ptr<runtime::Node> node_;
};

Status CheckArguments(const Arguments& arguments) {
  const bool files = !arguments.texts.texts.empty() || !arguments.texts.tokens.empty();
  if (!files && !arguments.has_prompt)
    return Error{Code::kInvalidArgument, "--text, --tokens or --prompt is required",
                 "name the session to place, such as --text notes.txt"};
  if (arguments.rule != kTable && !arguments.fallback.empty())
    return Error{Code::kInvalidArgument,
                 Cat("--fallback has no effect: --rule ", arguments.rule, " always answers"),
                 "leave it out: only the table may have no answer"};
  if (!arguments.runs_model() && !arguments.model_option.empty())
    return Error{Code::kInvalidArgument,
                 Cat(arguments.model_option, " has no effect: the table runs no model"),
                 "leave it out, or ask the model with --rule or --fallback"};
  return CheckRuntimeOptions(arguments.runtime.source, arguments.runtime, "");
}

// Notes how many answers the table gave without being sure.
void NoteUnsure(const std::vector<SessionPlace>& places) {
  const auto unsure = static_cast<uint64_t>(
      std::count_if(places.begin(), places.end(),
                    [](const SessionPlace& place) { return place.sure && !*place.sure; }));
  if (unsure == 0) return;
  PrintNotes({Cat("the table is not sure of ", unsure, " of ", Plural(places.size(), "session"),
                  ": --fallback race asks the model")});
}

Result<int> Run(const Arguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(CheckArguments(arguments));
  Placing placing(arguments);
  SHARD_CHECK(placing.Open());
  SHARD_TRY(const std::vector<TokenSession> sessions, placing.Sessions());
  std::vector<SessionPlace> places;
  for (const TokenSession& session : sessions) {
    auto place = placing.Place(session);
    if (!place) return std::move(place).error().Within(Cat("session ", Quoted(session.name)));
    places.push_back(*std::move(place));
  }
  NoteUnsure(places);
  SHARD_CHECK(arguments.json ? WriteJsonResult(PlaceJson(arguments.runtime.source, places))
                             : WriteReport(PlaceText(places), PlaceLine(places)));
  return kExitDone;
}

void AddSessions(CLI::App& app, Arguments& arguments) {
  StartSection(app, "Text");
  CLI::Option* text =
      app.add_option("--text", arguments.texts.texts,
                     "Texts in UTF-8. Each file is one session; in a .jsonl file each line is one, "
                     "as profile takes them. Several files may follow, and the option may be "
                     "repeated; - is standard input.")
          ->type_name("FILE");
  CLI::Option* tokens =
      app.add_option("--tokens", arguments.texts.tokens,
                     "Token ids, such as 12,7,9, or the name of a file of ids, as profile takes "
                     "them; - is standard input. They need no tokenizer.")
          ->type_name("IDS|FILE");
  app.add_option("--prompt", arguments.prompt, "The text of one session; - is standard input.")
      ->type_name("TEXT")
      ->excludes(text)
      ->excludes(tokens);
}

void AddRules(CLI::App& app, Arguments& arguments) {
  StartSection(app, "Scoring");
  app.add_option("--rule", arguments.rule,
                 "How to choose: table (default), which needs no model; probe, the gates of the "
                 "routers that each group could serve; or race, the group that finds the first "
                 "tokens likeliest.")
      ->type_name("RULE")
      ->transform(OneOf({kTable, kProbe, kRace}));
  app.add_option("--fallback", arguments.fallback,
                 "Use probe or race if the table is missing or not sure. This loads the model.")
      ->type_name("RULE")
      ->transform(OneOf({kProbe, kRace}));
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddRuntimeSource(app, "DIST", "The distribution for which to choose a group.",
                   arguments->runtime.source, arguments->runtime);
  arguments->runtime.load.not_pulled_hint =
      "probe and race ask the model with all groups, so pull the others, too; --rule table needs "
      "none";
  AddSessions(app, *arguments);
  AddRules(app, *arguments);
  AddExecutor(app, arguments->runtime);
  AddJson(app, arguments->json);
  std::vector<CLI::Option*> of_model;
  for (const char* name : {"--executor", "--device", "--threads", "--jobs", "--no-verify",
                           "--verify-files", "--no-overlay", "--overlay", "--family", "--config"})
    of_model.push_back(app.get_option(name));
  const CLI::Option* prompt = app.get_option("--prompt");
  return [arguments, of_model, prompt] {
    arguments->has_prompt = prompt->count() > 0;
    for (const CLI::Option* option : of_model) {
      if (option->count() > 0 && arguments->model_option.empty())
        arguments->model_option = option->get_name();
    }
    return Run(*arguments);
  };
}

}  // namespace
}  // namespace place_command

constinit const Command kPlace = {
    "place",
    "Says which node a session belongs to, and how sure that is",
    "Reads the placement table of a distribution, which a plan made from statistics has, and the "
    "first tokens of each session. Without --rule and --fallback no weights are loaded: "
    "distribution.json and the tokenizer are enough. docs/planning.md says how the table is made.",
    {"moepack place out --prompt \"int main(\" --rule probe",
     "moepack place out --text fixtures/texts/header.txt --fallback race --json"},
    {"--text", "--tokens", "--prompt", "--rule", "--fallback", "--executor", "--json"},
    place_command::Bind};

}  // namespace moepack::cli
