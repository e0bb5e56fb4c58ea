#include "tools/reports/runs/scores_report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

struct ScoreLayerSummary {
  MoeLayerShape shape;
  uint32_t used = 0;             // with a score above 0
  double top_quarter_share = 0;  // of the layer's scores; a quarter is rounded up
  double largest_share = 0;
};

std::vector<ScoreLayerSummary> SummarizeScores(const ExpertScores& scores) {
  const std::vector<double> sums = SumOfScores(scores);
  std::vector<ScoreLayerSummary> layers;
  size_t offset = 0;
  for (const MoeLayerShape& shape : scores.layers) {
    const auto first = sums.begin() + static_cast<std::ptrdiff_t>(offset);
    std::vector<double> layer(first, first + shape.expert_count);
    offset += shape.expert_count;
    ScoreLayerSummary& summary = layers.emplace_back();
    summary.shape = shape;
    summary.used = static_cast<uint32_t>(
        std::count_if(layer.begin(), layer.end(), [](double score) { return score > 0; }));
    std::sort(layer.begin(), layer.end(), std::greater<>());
    const double sum = std::accumulate(layer.begin(), layer.end(), 0.0);
    if (sum <= 0) continue;
    const auto quarter = layer.begin() + static_cast<std::ptrdiff_t>((layer.size() + 3) / 4);
    summary.top_quarter_share = std::accumulate(layer.begin(), quarter, 0.0) / sum;
    summary.largest_share = layer.front() / sum;
  }
  return layers;
}

struct ScoreBucket {
  std::string name;
  uint64_t sessions = 0, tokens = 0;
};

// In the order of their first session.
std::vector<ScoreBucket> BucketsOf(const ExpertScores& scores) {
  std::vector<ScoreBucket> buckets;
  for (const SessionScores& session : scores.sessions) {
    auto found = std::find_if(buckets.begin(), buckets.end(), [&](const ScoreBucket& bucket) {
      return bucket.name == session.bucket;
    });
    if (found == buckets.end()) found = buckets.insert(found, {session.bucket});
    ++found->sessions;
    found->tokens += session.tokens;
  }
  return buckets;
}

std::string PercentText(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

// What a score adds up, in words.
const char* BasisText(ScoreBasis basis) {
  switch (basis) {
    case ScoreBasis::kCount:
      return "count (tokens that chose the expert)";
    case ScoreBasis::kGateMass:
      return "gate (sum of the applied gates)";
    case ScoreBasis::kWeightedNorm:
      break;
  }
  return "reap (sum of gate x norm of the output)";
}

std::string SuperExpertText(const LayerExperts& super_experts) {
  if (CountIds(super_experts) == 0) return "";
  std::vector<std::string> layers;
  for (const auto& [layer, expert_ids] : super_experts)
    layers.push_back(Cat(layer, ":", FormatIds(expert_ids)));
  return Cat("Super Experts (layer:experts): ", moepack::Join(layers, " "), "\n");
}

std::string FactLines(const ExpertScores& scores) {
  std::string text = Cat("format   ", scores.format, "\nscores   ", BasisText(scores.basis),
                         "\ndigest   ", scores.digest, "\n");
  if (!scores.router_digest.empty()) text += Cat("routers  ", Shown(scores.router_digest), "\n");
  text += Cat("pairs    ",
              scores.co_selection.empty() ? "not known: which experts were chosen together"
                                          : "known: how often two experts were chosen together",
              "\n");
  if (scores.layer_agnostic) text += "layers   not told apart: one ranking for all\n";
  return text;
}

}  // namespace

std::string ScoresLine(const ExpertScores& scores) {
  return Cat(scores.format, ": ", Plural(scores.sessions.size(), "session"), ", ",
             Plural(SummarizeScores(scores).size(), "layer"), ", ", BasisText(scores.basis));
}

std::string ScoresText(const ExpertScores& scores) {
  Table buckets({"bucket", ">sessions", ">tokens"});
  for (const ScoreBucket& bucket : BucketsOf(scores)) {
    buckets.Row({bucket.name.empty() ? "-" : bucket.name, FormatCount(bucket.sessions),
                 bucket.tokens > 0 ? FormatCount(bucket.tokens) : "-"});
  }
  Table layers({">layer", ">experts", ">top-k", ">used", ">top quarter", ">largest"});
  for (const ScoreLayerSummary& layer : SummarizeScores(scores)) {
    layers.Row({Cat(layer.shape.layer), Cat(layer.shape.expert_count),
                layer.shape.top_k > 0 ? Cat(layer.shape.top_k) : "-", Cat(layer.used),
                PercentText(layer.top_quarter_share), PercentText(layer.largest_share)});
  }
  return Cat(FactLines(scores), "\n", buckets.Render(), "\n", layers.Render(),
             SuperExpertText(scores.super_experts));
}

Json ScoresReportJson(const ExpertScores& scores) {
  Json sessions = Json::array(), layers = Json::array();
  for (const SessionScores& session : scores.sessions) {
    sessions.push_back(
        {{"name", session.name}, {"bucket", session.bucket}, {"tokens", session.tokens}});
  }
  LayerCounts counts;
  for (const ScoreLayerSummary& layer : SummarizeScores(scores)) {
    counts[layer.shape.layer] = layer.shape.expert_count;
    layers.push_back({{"layer", layer.shape.layer},
                      {"experts", layer.shape.expert_count},
                      {"top_k", layer.shape.top_k},
                      {"used", layer.used},
                      {"top_quarter_share", layer.top_quarter_share},
                      {"largest_share", layer.largest_share}});
  }
  return {{"format", scores.format},
          {"basis", kScoreBasisNames[static_cast<size_t>(scores.basis)]},
          {"digest", scores.digest},
          {"router_digest", scores.router_digest},
          {"layer_agnostic", scores.layer_agnostic},
          {"co_selection", !scores.co_selection.empty()},
          {"sessions", std::move(sessions)},
          {"layers", std::move(layers)},
          {"super_experts", LayerExpertsToJson(scores.super_experts, counts)},
          {"warnings", scores.warnings}};
}

}  // namespace moepack::cli
