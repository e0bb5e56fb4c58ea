#include "tools/reports/runs/profile_report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

constexpr size_t kMaxSuperExpertsInText = 20;

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

std::string Correlation(const std::optional<double>& value) {
  if (!value) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", *value);
  return text;
}

std::string BucketLines(const StatisticsSummary& summary) {
  Table table({"bucket", ">sessions", ">prefill tokens", ">decode tokens"});
  for (const BucketSummary& bucket : summary.buckets) {
    table.Row({bucket.bucket.empty() ? "-" : bucket.bucket, FormatCount(bucket.sessions),
               FormatCount(bucket.prefill_tokens), FormatCount(bucket.decode_tokens)});
  }
  return table.Render();
}

std::string LayerLines(const StatisticsSummary& summary) {
  Table table({">layer", ">experts", ">used", ">top quarter", ">largest", ">tokens per expert",
               ">split-half"});
  for (const LayerSummary& layer : summary.layers) {
    table.Row({std::to_string(layer.layer), std::to_string(layer.expert_count),
               std::to_string(layer.used), Percent(layer.top_quarter_share),
               Percent(layer.largest_share), FormatCount(layer.tokens_per_expert),
               Correlation(layer.split_half)});
  }
  return table.Render();
}

std::string SuperExpertLines(const StatisticsSummary& summary) {
  const std::vector<SuperExpert>& experts = summary.super_experts;
  if (summary.expert_count < kLeastPeaks)
    return Cat("Super Experts: not looked for; ", Plural(summary.expert_count, "expert"),
               " in all layers, at least ", kLeastPeaks, " are needed\n");
  if (experts.empty()) return "Super Experts: none\n";
  std::string text = "Super Experts (layer:expert, largest output):";
  for (size_t i = 0; i < experts.size() && i < kMaxSuperExpertsInText; ++i) {
    text += Cat(i == 0 ? " " : ", ", experts[i].layer, ":", experts[i].expert, " ",
                FixedPoint(double{experts[i].peak}));
  }
  if (experts.size() > kMaxSuperExpertsInText) {
    text += Cat(" and ", experts.size() - kMaxSuperExpertsInText, " more");
  }
  return text + "\n";
}

std::string Advice(const StatisticsSummary& summary) {
  if (summary.stable())
    return "The halves of the texts agree in every layer (split-half above 0.98): enough text.\n";
  return "The halves of the texts disagree (split-half of 0.98 or less, or undefined): add text.\n";
}

Json LayerJson(const LayerSummary& layer) {
  return {{"layer", layer.layer},
          {"experts", layer.expert_count},
          {"used", layer.used},
          {"top_quarter_share", layer.top_quarter_share},
          {"largest_share", layer.largest_share},
          {"tokens_per_expert", layer.tokens_per_expert},
          {"split_half", layer.split_half ? Json(*layer.split_half) : Json(nullptr)}};
}

}  // namespace

uint64_t CountTokens(const std::vector<TokenSession>& sessions) {
  uint64_t tokens = 0;
  for (const TokenSession& session : sessions) tokens += session.tokens.size();
  return tokens;
}

std::string ProfileText(const ProfileReport& report) {
  std::string text = BucketLines(report.summary) + "\n" + LayerLines(report.summary) + "\n" +
                     SuperExpertLines(report.summary) + Advice(report.summary);
  for (const std::string& file : {report.out, report.trace, report.imatrix}) {
    if (!file.empty()) text += Cat("wrote ", Shown(file), "\n");
  }
  return text;
}

std::string ProfileLine(const ProfileReport& report) {
  std::vector<std::string> files;
  for (const std::string& file : {report.out, report.trace, report.imatrix}) {
    if (!file.empty()) files.push_back(Shown(file));
  }
  return Cat(files.empty() ? "" : Cat("wrote ", moepack::Join(files, ", "), "; "),
             report.summary.stable() ? "the halves of the texts agree in every layer"
                                     : "the halves of the texts disagree: add text");
}

Json ProfileJson(const ProfileReport& report) {
  Json layers = Json::array(), super_experts = Json::array(), buckets = Json::array();
  for (const LayerSummary& layer : report.summary.layers) {
    layers.push_back(LayerJson(layer));
  }
  for (const SuperExpert& expert : report.summary.super_experts) {
    super_experts.push_back(
        {{"layer", expert.layer}, {"expert", expert.expert}, {"peak", expert.peak}});
  }
  for (const BucketSummary& bucket : report.summary.buckets) {
    buckets.push_back({{"bucket", bucket.bucket},
                       {"sessions", bucket.sessions},
                       {"prefill_tokens", bucket.prefill_tokens},
                       {"decode_tokens", bucket.decode_tokens}});
  }
  const auto written = [](const std::string& file) { return file.empty() ? Json() : Json(file); };
  return {{"router_digest", report.statistics.model.router_digest},
          {"stable", report.summary.stable()},
          {"buckets", std::move(buckets)},
          {"layers", std::move(layers)},
          {"super_experts",
           report.summary.expert_count < kLeastPeaks ? Json(nullptr) : std::move(super_experts)},
          {"output", written(report.out)},
          {"trace", written(report.trace)},
          {"imatrix", written(report.imatrix)}};
}

std::string ProfilePlanLine(const std::vector<TokenSession>& sessions) {
  return Cat(Plural(sessions.size(), "session"), ", ", Plural(CountTokens(sessions), "token"),
             "; nothing was run");
}

std::string ProfilePlanText(const std::vector<TokenSession>& sessions, uint32_t generate) {
  Table table({"session", "bucket", ">tokens", ">generated at most"});
  for (const TokenSession& session : sessions) {
    table.Row({session.name, session.bucket.empty() ? "-" : session.bucket,
               FormatCount(session.tokens.size()), FormatCount(generate)});
  }
  return Cat(table.Render(), "\n", ProfilePlanLine(sessions), "\n");
}

Json ProfilePlanJson(const std::vector<TokenSession>& sessions, uint32_t generate) {
  Json list = Json::array();
  for (const TokenSession& session : sessions) {
    list.push_back(
        {{"session", session.name}, {"bucket", session.bucket}, {"tokens", session.tokens.size()}});
  }
  return {{"sessions", std::move(list)}, {"tokens", CountTokens(sessions)}, {"generate", generate}};
}

}  // namespace moepack::cli
