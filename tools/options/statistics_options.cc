#include "tools/options/statistics_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "libshard/base/files/file.h"
#include "libshard/base/text/address.h"
#include "libshard/base/text/text.h"
#include "libshard/import/import.h"
#include "libshard/model/router_digest.h"
#include "libshard/plan/partition.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"

namespace moepack::cli {
namespace {

constexpr uint64_t kMaxSeed = (uint64_t{1} << 53) - 1;  // what any reader of JSON keeps

// 0.2 -> 200 per mille.
CLI::Validator AsPerMille() {
  const auto check = [](std::string& text) -> std::string {
    double share = -1;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), share);
    if (problem != std::errc() || end != text.data() + text.size() || !(share >= 0) || share > 0.9)
      return Cat("expected a share from 0 to 0.9, found ", Quoted(text));
    text = std::to_string(static_cast<uint32_t>(share * 1000 + 0.5));
    return "";
  };
  return CLI::Validator(check, "");
}

std::vector<std::string> ScoreNames() { return {kScoreBasisNames.begin(), kScoreBasisNames.end()}; }

ScoreBasis ScoreNamed(const std::string& name) {
  const auto it = std::find(kScoreBasisNames.begin(), kScoreBasisNames.end(), name);
  return static_cast<ScoreBasis>(it - kScoreBasisNames.begin());
}

void AddMeasuringOptions(CLI::App& app, CLI::Option* statistics, PlanOptions& options) {
  app.add_flag("--pin-super,!--no-pin-super", options.pin_super,
               "Put the experts with outstanding outputs (Super Experts), if the statistics have "
               "them, on every node. On unless --no-pin-super is given.")
      ->needs(statistics);
  app.add_option("--held-out", options.held_out,
                 "The share of the sessions, the same in every bucket, that is held out to measure "
                 "what new sessions will find. Default: 0.2.")
      ->type_name("SHARE")
      ->transform(AsPerMille())
      ->needs(statistics);
  app.add_option("--seed", options.seed,
                 "Seed of the random starts of session and coactivation. Default: 0. The same seed "
                 "gives the same plan on every machine.")
      ->type_name("N")
      ->transform(AsCount(0, kMaxSeed))
      ->needs(statistics);
}

// What only partitions that decide from statistics use.
Status CheckWithoutScores(const PlanOptions& options, const Partition& partition) {
  if (!options.pin_file.empty())
    return Error{Code::kInvalidArgument,
                 Cat("--pin and --partition ", partition.name, " cannot be used together"),
                 "an overlay (--overlay-file) puts experts on every node with any partition"};
  if (!options.pin_super)
    return Error{Code::kInvalidArgument,
                 Cat("--no-pin-super has no effect: --partition ", partition.name,
                     " does not decide from statistics"),
                 "leave it out"};
  if (options.eligible && !options.uniform)
    return Error{Code::kInvalidArgument,
                 Cat("--eligible and --no-uniform cannot be used together with --partition ",
                     partition.name),
                 "only partitions that decide from statistics choose what else a node holds"};
  return Ok();
}

Status CheckSeed(const PlanOptions& options, const Partition& partition) {
  if (!options.seed || partition.random_starts) return Ok();
  return Error{Code::kInvalidArgument,
               Cat("--seed has no effect: --partition ", partition.name, " has no random starts"),
               "leave it out"};
}

}  // namespace

void AddStatisticsOptions(CLI::App& app, PlanOptions& options) {
  StartSection(app, "Split");
  CLI::Option* statistics =
      app.add_option(
             "--statistics", options.statistics_files,
             "What the model's routers choose, as `moepack profile` measured it. Some partitions "
             "use it, and the report of any plan then says what sessions will find. Several files "
             "of one model may follow, and the option may be repeated.")
          ->type_name("FILE");
  app.add_option_function<std::string>(
         "--score", [&options](const std::string& name) { options.score = ScoreNamed(name); },
         "How experts are scored: by how often they are chosen (count), their gates (gate), or "
         "gate times norm of output (reap). Default: the last of these that the statistics have.")
      ->type_name("KIND")
      ->transform(OneOf(ScoreNames()))
      ->needs(statistics);
  app.add_option("--eligible", options.eligible,
                 "How many experts of each layer a node may pick from, the overlay's included. "
                 "Default: an equal part, and the overlay.")
      ->type_name("N")
      ->transform(AsCount(1, kMaxGroups));
  app.add_option(
         "--pin", options.pin_file,
         "Put the experts that this JSON file names, per layer, into every group: {\"layers\": "
         "{\"3\": \"82\"}}.")
      ->type_name("FILE")
      ->needs(statistics);
  AddMeasuringOptions(app, statistics, options);
}

Status CheckStatisticsOptions(const PlanOptions& options) {
  // The default depends on what is in the statistics; ChoosePartition checks it then.
  if (!options.partition && !options.statistics_files.empty() && !options.scores) return Ok();
  SHARD_TRY(const PartitionChoice choice, ParsePartition(PartitionOf(options)));
  const Partition& partition = *choice.partition;
  if (partition.by_scores && options.statistics_files.empty() && !options.scores)
    return Error{Code::kInvalidArgument,
                 Cat("--partition ", partition.name, " needs --statistics FILE"),
                 "`moepack profile` measures them"};
  SHARD_CHECK(CheckSeed(options, partition));
  return partition.by_scores ? Ok() : CheckWithoutScores(options, partition);
}

std::vector<std::string> RecordStatisticsOptions(const PlanOptions& options) {
  const PlanOptions defaults;
  std::vector<std::string> words;
  const auto add = [&](const char* name, std::string value) {
    words.insert(words.end(), {name, std::move(value)});
  };
  for (const std::string& file : options.statistics_files) add("--statistics", FileName(file));
  if (options.score) add("--score", kScoreBasisNames[static_cast<size_t>(*options.score)]);
  if (options.eligible) add("--eligible", std::to_string(*options.eligible));
  if (!options.pin_file.empty()) add("--pin", FileName(options.pin_file));
  if (!options.pin_super) words.push_back("--no-pin-super");
  if (options.held_out != defaults.held_out) add("--held-out", Cat(options.held_out / 1000.0));
  if (options.seed.value_or(0) != 0) add("--seed", std::to_string(*options.seed));
  return words;
}

Status CheckMeasuredOn(const std::string& where, const std::string& measured,
                       const MoeModel& model) {
  if (measured.empty()) return Ok();  // routers are only read if there is something to compare
  SHARD_TRY(const std::string expected, RouterDigest(model));
  SHARD_TRY(const std::string warning,
            CheckRouters(where, measured, WithoutSecrets(model.checkpoint().source().string()),
                         expected));
  if (!warning.empty()) PrintWarnings({warning});
  return Ok();
}

Result<PlanOptions> WithScores(const MoeModel& model, PlanOptions options) {
  if (options.statistics_files.empty()) return options;
  ImportOptions import;
  import.model = MeasuredLayers(model);
  import.basis = options.score;
  import.pairs = options.partition && ReadsPairs(*options.partition);
  SHARD_TRY(ExpertScores scores, ReadExpertScores(options.statistics_files, import));
  PrintWarnings(scores.warnings);
  SHARD_CHECK(CheckMeasuredOn(Join(options.statistics_files, ", "), scores.router_digest, model));
  options.scores = std::make_shared<const ExpertScores>(std::move(scores));
  return options;
}

Status ChoosePartition(PlanOptions& options) {
  if (options.partition) return Ok();
  const PartitionDefault chosen = DefaultPartition(options);
  options.partition = std::string(chosen.name);
  if (!chosen.why.empty()) PrintMessage(Cat("partition: ", chosen.name, ", ", chosen.why));
  return CheckStatisticsOptions(options);
}

Result<Plan> PlanFromOptions(const MoeModel& model, PlanOptions& options) {
  SHARD_TRY(PlanOptions with_scores, WithScores(model, options));
  SHARD_CHECK(ChoosePartition(with_scores));
  options.partition = with_scores.partition;
  return MakePlan(model, with_scores);
}

}  // namespace moepack::cli
