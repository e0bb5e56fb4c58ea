#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/zstd.h"
#include "libshard/base/text/text.h"
#include "libshard/import/import.h"
#include "libshard/model/router_digest.h"
#include "libshard/replay/cache_replay.h"
#include "libshard/replay/expected_hits.h"
#include "libshard/replay/expert_layout.h"
#include "libshard/stats/statistics_file.h"
#include "manifest/document/expert_ranges.h"
#include "manifest/overlay/distribution_routers.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/commands/planning/replay_sizes.h"
#include "tools/options/given_once.h"
#include "tools/options/options.h"
#include "tools/reports/runs/replay_report.h"

namespace moepack::cli {
namespace replay_command {
namespace {

constexpr uint64_t kMaxPrefillBatch = 1u << 20;
constexpr uint32_t kUsualWarmUp = 25;

struct Arguments {
  std::string file;
  SourceArguments model;  // its source is "" without --model
  ReplaySizeArguments sizes;
  std::vector<std::string> policies;
  std::string statistics;
  std::optional<uint32_t> warm_up, top_k;
  uint32_t prefill_batch = 1;
  size_t jobs = 0;
  bool json = false;
};

// The experts of --model.
struct Placed {
  ExpertRanges ranges;
  std::vector<MoeLayerShape> shapes;
  std::function<Result<std::string>()> router_digest;  // reads the routers
};

Result<std::optional<Placed>> OpenPlaced(const Arguments& arguments) {
  if (arguments.model.source.empty()) return std::optional<Placed>();
  SHARD_TRY(const moepack::Source source, OpenSource(arguments.model.source));
  SHARD_TRY(const bool distribution, source.tree->Has(manifest::kManifestFile));
  Placed placed;
  if (distribution && (source.file.empty() || source.file == manifest::kManifestFile)) {
    SHARD_TRY(manifest::Manifest read, manifest::ReadManifest(*source.tree));
    SHARD_TRY(placed.ranges, manifest::RangesOf(arguments.model.shown(), read));
    placed.shapes = manifest::ShapesOf(read);
    const auto shared = std::make_shared<const manifest::Manifest>(std::move(read));
    placed.router_digest = [tree = source.tree, shared,
                            family = arguments.model.model.family_file] {
      return manifest::RouterDigest(tree, *shared, family);
    };
    return std::optional(std::move(placed));
  }
  SHARD_TRY(MoeModel model, OpenModel(source, arguments.model));
  SHARD_TRY(placed.ranges, moepack::RangesOf(model));
  for (const MoeLayer& layer : model.layers())
    placed.shapes.push_back({layer.layer, layer.expert_count, layer.top_k});
  const auto shared = std::make_shared<const MoeModel>(std::move(model));
  placed.router_digest = [shared] { return RouterDigest(*shared); };
  return std::optional(std::move(placed));
}

Error NoEffect(const char* option, const std::string& file) {
  return {Code::kInvalidArgument, Cat(option, " has no effect: ", Shown(file), " is not a trace"),
          "leave it out, or replay a trace (profile --trace)"};
}

// What the trace itself says about the size of an expert, if there is no model.
ExpertLayout LayoutOfTrace(const RouteTrace& trace) {
  ExpertLayout layout;
  for (const LayerTrace& layer : trace.layers) {
    if (!layer.expert_bytes) return {};
    layout.emplace_back(layer.shape.expert_count, ExpertReads{*layer.expert_bytes, 0, 0});
  }
  return layout;
}

std::vector<MoeLayerShape> LayersOf(const RouteTrace& trace) {
  std::vector<MoeLayerShape> layers;
  for (const LayerTrace& layer : trace.layers) layers.push_back(layer.shape);
  return layers;
}

// Experts of each layer by score; ties go to the lower id.
std::vector<std::vector<uint32_t>> BestByScore(const ExpertScores& scores) {
  const std::vector<double> sums = SumOfScores(scores);
  std::vector<std::vector<uint32_t>> best_first;
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    const size_t offset = scores.Offset(i);
    std::vector<uint32_t> order(scores.layers[i].expert_count);
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return sums[offset + a] > sums[offset + b]; });
    best_first.push_back(std::move(order));
  }
  return best_first;
}

// --top-k must not contradict the model.
Status CheckTopK(const Arguments& arguments, const std::optional<Placed>& placed) {
  if (!arguments.top_k || !placed) return Ok();
  for (const MoeLayerShape& layer : placed->shapes) {
    if (layer.top_k == 0 || layer.top_k == *arguments.top_k) continue;
    return Error{Code::kInvalidArgument,
                 Cat("--top-k: expected ", layer.top_k, " as in layer ", layer.layer, " of ",
                     Shown(arguments.model.shown()), ", found ", *arguments.top_k),
                 "leave it out: --model says it"};
  }
  return Ok();
}

Result<RouteTrace> ReadTrace(const Arguments& arguments, const std::optional<Placed>& placed) {
  SHARD_CHECK(CheckTopK(arguments, placed));
  const TraceOptions options{placed ? placed->shapes : std::vector<MoeLayerShape>(),
                             arguments.top_k};
  SHARD_TRY(RouteTrace trace, ReadRouteTrace(arguments.file, options));
  PrintWarnings(trace.warnings);
  if (!arguments.top_k || trace.format == kLayerExpertFormat) return trace;
  return Error{Code::kInvalidArgument,
               Cat("--top-k has no effect: ", Shown(arguments.file),
                   " says how many experts each token chose"),
               "leave it out"};
}

std::vector<CachePolicy> PoliciesOf(const Arguments& arguments) {
  std::vector<CachePolicy> policies;
  for (size_t i = 0; i < kCachePolicyNames.size(); ++i) {
    const bool wanted = arguments.policies.empty() ||
                        std::find(arguments.policies.begin(), arguments.policies.end(),
                                  kCachePolicyNames[i]) != arguments.policies.end();
    if (wanted) policies.push_back(static_cast<CachePolicy>(i));
  }
  return policies;
}

bool IsWanted(const std::vector<CachePolicy>& policies, CachePolicy policy) {
  return std::find(policies.begin(), policies.end(), policy) != policies.end();
}

// The scores of our own statistics, as counts, because hits are counted in them.
Result<ExpertScores> ReadCounts(const std::string& path) {
  SHARD_TRY(ExpertScores scores, ReadProfileScores(path, ScoreBasis::kCount));
  PrintWarnings(scores.warnings);
  return scores;
}

// Refuses statistics of a model other than --model, if there is one.
Status CheckMeasured(const std::string& path, const ExpertScores& scores,
                     const Arguments& arguments, const std::optional<Placed>& placed) {
  if (!placed || scores.router_digest.empty()) return Ok();
  SHARD_TRY(const std::string expected, placed->router_digest());
  SHARD_TRY(const std::string warning,
            CheckRouters(path, scores.router_digest, arguments.model.shown(), expected));
  if (!warning.empty()) PrintWarnings({warning});
  return Ok();
}

// Sets the static set and the steps that are not counted.
Status SetStart(const Arguments& arguments, const RouteTrace& trace,
                const std::optional<Placed>& placed, ReplayOptions& options,
                std::string& fixed_from) {
  const bool fixed = IsWanted(options.policies, CachePolicy::kStatic);
  const bool from_trace = fixed && arguments.statistics.empty();
  if (!fixed && !arguments.statistics.empty())
    return Error{Code::kInvalidArgument,
                 "--statistics has no effect: only --policy static asks for it"};
  const uint32_t percent = arguments.warm_up.value_or(from_trace ? kUsualWarmUp : 0);
  options.first_counted = static_cast<uint32_t>(uint64_t{trace.steps.size()} * percent / 100);
  if (from_trace) {
    if (options.first_counted == 0)
      return Error{Code::kInvalidArgument,
                   "--policy static has no steps from which to choose its experts",
                   "name --statistics, a larger --warm-up, or other policies"};
    options.best_first = MostChosen(trace, options.first_counted);
    fixed_from = Cat("the first ", percent, " % of the trace");
  } else if (fixed) {
    SHARD_TRY(const ExpertScores scores, ReadCounts(arguments.statistics));
    LayerCounts counts;
    for (const LayerTrace& layer : trace.layers)
      counts[layer.shape.layer] = layer.shape.expert_count;
    SHARD_CHECK(CheckScoresFit(arguments.statistics, scores, counts));
    SHARD_CHECK(CheckMeasured(arguments.statistics, scores, arguments, placed));
    options.best_first = BestByScore(scores);
    fixed_from = arguments.statistics;
  }
  return Ok();
}

Result<int> RunTrace(const Arguments& arguments, const std::optional<Placed>& placed) {
  SHARD_TRY(const RouteTrace trace, ReadTrace(arguments, placed));
  ExpertLayout layout = LayoutOfTrace(trace);
  if (placed) {
    SHARD_TRY(layout,
              LayoutFor(arguments.file, arguments.model.shown(), placed->ranges, LayersOf(trace)));
  }
  ReplayOptions options;
  options.layout = layout.empty() ? nullptr : &layout;
  SHARD_TRY(const std::vector<ReplaySize> sizes,
            ReplaySizesFor(arguments.sizes, LayersOf(trace), options.layout));
  for (const ReplaySize& size : sizes) options.slots.emplace_back(trace.layers.size(), size.slots);
  options.policies = PoliciesOf(arguments);
  options.prefill_batch = arguments.prefill_batch;
  options.jobs = arguments.jobs;
  std::string fixed_from;
  SHARD_CHECK(SetStart(arguments, trace, placed, options, fixed_from));
  SHARD_TRY(const std::vector<ReplayRow> rows, ReplayTrace(trace, options));
  const ReplayReport report{trace,
                            sizes,
                            rows,
                            options.prefill_batch,
                            options.first_counted,
                            options.layout != nullptr,
                            placed.has_value(),
                            fixed_from};
  SHARD_CHECK(arguments.json ? WriteJsonResult(ReplayJson(report))
                             : WriteReport(ReplayText(report), ReplayLine(report)));
  return kExitDone;
}

Result<int> RunStatistics(const Arguments& arguments, const std::optional<Placed>& placed) {
  if (arguments.warm_up) return NoEffect("--warm-up", arguments.file);
  if (arguments.top_k) return NoEffect("--top-k", arguments.file);
  if (arguments.prefill_batch > 1) return NoEffect("--prefill-batch", arguments.file);
  if (!arguments.statistics.empty()) return NoEffect("--statistics", arguments.file);
  if (!arguments.policies.empty()) {
    return Error{Code::kInvalidArgument,
                 Cat("--policy needs a trace, and ", Shown(arguments.file), " has statistics"),
                 "statistics have no order; without --policy what they allow is printed"};
  }
  SHARD_TRY(const ExpertScores scores, ReadCounts(arguments.file));
  std::optional<ExpertLayout> layout;
  if (placed) {
    SHARD_TRY(layout,
              LayoutFor(arguments.file, arguments.model.shown(), placed->ranges, scores.layers));
  }
  SHARD_CHECK(CheckMeasured(arguments.file, scores, arguments, placed));
  SHARD_TRY(const std::vector<ReplaySize> sizes,
            ReplaySizesFor(arguments.sizes, scores.layers, layout ? &*layout : nullptr));
  std::vector<ExpectedHits> hits;
  for (const ReplaySize& size : sizes)
    hits.push_back(ExpectHits(scores, std::vector<uint32_t>(scores.layers.size(), size.slots)));
  const ExpectedReport report{arguments.file, scores, sizes, hits};
  SHARD_CHECK(arguments.json ? WriteJsonResult(ExpectedJson(report))
                             : WriteReport(ExpectedText(report)));
  return kExitDone;
}

// Statistics are distinguished from traces by their first bytes.
Result<bool> IsStatistics(const std::string& path) {
  SHARD_TRY(const moepack::Source source, LocalSource(path));
  if (source.file.empty()) return false;
  SHARD_TRY(const ByteSourcePtr file, source.tree->Open(source.file));
  SHARD_TRY(const std::string head, TextHead(*file, 4096));
  return head.find(Cat('"', kStatisticsFormat, '"')) != std::string::npos;
}

Result<int> Run(const Arguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(CheckGivenOnce("--policy", arguments.policies));
  SHARD_TRY(const bool statistics, IsStatistics(arguments.file));
  SHARD_TRY(const std::optional<Placed> placed, OpenPlaced(arguments));
  return statistics ? RunStatistics(arguments, placed) : RunTrace(arguments, placed);
}

void AddPolicies(CLI::App& app, std::vector<std::string>& policies) {
  app.add_option("--policy", policies, "Only these: lru, lfu, static, oracle. Default: all.")
      ->type_name("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(
          OneOf(std::vector<std::string>(kCachePolicyNames.begin(), kCachePolicyNames.end())));
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option("FILE", arguments->file,
                 "A trace of routing, as profile --trace or another tool wrote it, or statistics "
                 "of profile.")
      ->required();
  StartSection(app, "Input");
  CLI::Option* model =
      app.add_option("--model", arguments->model.source,
                     "The checkpoint, GGUF or distribution whose experts would be read: for bytes "
                     "per token, and to check the trace or statistics. Headers are read, and the "
                     "routers for statistics.")
          ->type_name("SRC");
  AddModelOptions(app, arguments->model.model);
  for (const char* name : {"--family", "--config"}) app.get_option(name)->needs(model);
  app.add_option("--statistics", arguments->statistics,
                 "Statistics of profile whose best experts the static cache holds. Default: those "
                 "of the warm-up.")
      ->type_name("FILE");
  app.add_option(
         "--top-k", arguments->top_k,
         "Experts per token, for a trace of `layer,expert` rows, which do not say it. Default: "
         "as the model has it, or inferred.")
      ->type_name("N")
      ->transform(AsCount(1, kMaxStatisticsExperts));
  AddReplaySizes(app, arguments->sizes);
  AddPolicies(app, arguments->policies);
  app.add_option("--warm-up", arguments->warm_up,
                 "The first PERCENT of the tokens fill the caches and are not counted. Default: "
                 "25 where they choose the static cache's experts, else 0.")
      ->type_name("PERCENT")
      ->transform(AsCount(0, 99));
  app.add_option("--prefill-batch", arguments->prefill_batch,
                 "Tokens of a prompt that run at once and read each expert once. Default: 1, as "
                 "if every token were decoded.")
      ->type_name("N")
      ->transform(AsCount(1, kMaxPrefillBatch));
  AddJobs(app, arguments->jobs);
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace replay_command

constinit const Command kReplay = {
    "replay",
    "Computes what caches of experts would hit on a recorded run",
    "For runtimes that keep some experts in memory and read the others from a disk. Every layer "
    "has a cache of so many slots, each for one expert. Prints the share of lookups that hit, and "
    "with --model the bytes read per token from where the experts lie, for caches that keep what "
    "was used last (lru), most often (lfu), a fixed set (static), or what will be used soonest "
    "(oracle), which no cache can beat.",
    {"moepack replay fixtures/statistics/route-trace.csv --model fixtures/tiny-moe --slots 2,4,8",
     "moepack replay fixtures/statistics/route-trace.csv --policy lru,oracle --json"},
    {"--slots", "--bytes", "--policy", "--model", "--statistics", "--warm-up", "--prefill-batch",
     "--json"},
    replay_command::Bind};

}  // namespace moepack::cli
