#include "tools/reports/runs/replay_report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/base/range_text.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

std::string HitPercent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

double RateOf(const CacheCounts& counts) {
  return static_cast<double>(counts.hits) / static_cast<double>(counts.lookups);
}

std::string RateText(const CacheCounts& counts) {
  return counts.lookups == 0 ? "-" : HitPercent(RateOf(counts));
}

Json RateJson(const CacheCounts& counts) {
  return counts.lookups == 0 ? Json() : Json(RateOf(counts));
}

// "16 experts, 2 per token", or the ranges over the layers.
std::string ShapeText(const std::vector<MoeLayerShape>& layers) {
  uint32_t least = UINT32_MAX, most = 0, top_k = 0;
  for (const MoeLayerShape& layer : layers) {
    least = std::min(least, layer.expert_count);
    most = std::max(most, layer.expert_count);
    top_k = std::max(top_k, layer.top_k);
  }
  std::string text =
      Cat(Plural(layers.size(), "layer"), " with ", RangeText(least, most, "expert"));
  if (top_k > 0) text += Cat(", ", top_k, " per token");
  return text;
}

Json ShapesJson(const std::vector<MoeLayerShape>& layers) {
  Json list = Json::array();
  for (const MoeLayerShape& layer : layers)
    list.push_back(
        {{"layer", layer.layer}, {"experts", layer.expert_count}, {"top_k", layer.top_k}});
  return list;
}

std::vector<MoeLayerShape> ShapesOfTrace(const RouteTrace& trace) {
  std::vector<MoeLayerShape> shapes;
  for (const LayerTrace& layer : trace.layers) shapes.push_back(layer.shape);
  return shapes;
}

std::string SizeText(const std::optional<uint64_t>& bytes) {
  return bytes ? FormatBytes(*bytes) : "-";
}

// Sums over the counted tokens, for one of them.
struct PerToken {
  double bytes = 0, block_bytes = 0, reads = 0;
};
PerToken PerTokenOf(const CacheCounts& counts, uint64_t tokens) {
  if (tokens == 0) return {};
  const auto each = [&](uint64_t sum) {
    return static_cast<double>(sum) / static_cast<double>(tokens);
  };
  return {each(counts.misses.bytes), each(counts.misses.block_bytes), each(counts.misses.reads)};
}

std::string Rounded(double bytes) { return FormatBytes(static_cast<uint64_t>(bytes + 0.5)); }

std::string RowsText(const ReplayReport& report, uint64_t tokens) {
  std::vector<std::string> headings = {">slots", ">cache",   "policy",
                                       ">hits",  ">prefill", ">decode"};
  if (report.bytes) headings.emplace_back(">read/token");
  if (report.blocks) headings.insert(headings.end(), {">in blocks", ">reads/token"});
  Table table(headings);
  for (const ReplayRow& row : report.rows) {
    const ReplaySize& size = report.sizes[row.size];
    const CacheCounts all = row.all();
    const PerToken each = PerTokenOf(all, tokens);
    table.Cell(size.slots);
    table.Cell(SizeText(size.bytes));
    table.Cell(kCachePolicyNames[static_cast<size_t>(row.policy)]);
    table.Cell(RateText(all));
    table.Cell(RateText(row.phases[0]));
    table.Cell(RateText(row.phases[1]));
    if (report.bytes) table.Cell(Rounded(each.bytes));
    if (report.blocks) {
      table.Cell(Rounded(each.block_bytes));
      table.Cell(FixedPoint(each.reads));
    }
  }
  return table.Render();
}

Json CountsJson(const ReplayReport& report, const CacheCounts& counts, uint64_t tokens) {
  Json json = {{"lookups", counts.lookups}, {"hits", counts.hits}, {"hit_rate", RateJson(counts)}};
  if (report.bytes) json["read_bytes"] = counts.misses.bytes;
  if (report.blocks) {
    json["read_block_bytes"] = counts.misses.block_bytes;
    json["reads"] = counts.misses.reads;
  }
  if (report.bytes) json["read_bytes_per_token"] = PerTokenOf(counts, tokens).bytes;
  return json;
}

Json BytesJson(const std::optional<uint64_t>& bytes) { return bytes ? Json(*bytes) : Json(); }

}  // namespace

std::string ReplayText(const ReplayReport& report) {
  const std::array<uint64_t, 2> counted = CountSteps(report.trace, report.first_counted);
  std::string text = Cat(report.trace.format, ": ", ShapeText(ShapesOfTrace(report.trace)), "; ",
                         Plural(report.trace.steps.size(), "token"), " in ",
                         Plural(report.trace.turns.size(), "turn"), "\n");
  text += Cat("counted: ", FormatCount(counted[0]), " of prefill, ", FormatCount(counted[1]),
              " of decode");
  if (report.first_counted > 0)
    text +=
        Cat("; the first ",
            report.first_counted == 1 ? "fills" : Cat(FormatCount(report.first_counted), " fill"),
            " the caches");
  if (report.prefill_batch > 1) text += Cat("; prompts run ", report.prefill_batch, " at once");
  text += "\n";
  if (!report.fixed_from.empty())
    text += Cat("static: the best of ", Shown(report.fixed_from), "\n");
  return text + "\n" + RowsText(report, counted[0] + counted[1]);
}

std::string ReplayLine(const ReplayReport& report) {
  const auto most = std::max_element(
      report.rows.begin(), report.rows.end(),
      [](const ReplayRow& a, const ReplayRow& b) { return RateOf(a.all()) < RateOf(b.all()); });
  if (most == report.rows.end()) return "";
  return Cat("most hits: ", RateText(most->all()), " by ",
             kCachePolicyNames[static_cast<size_t>(most->policy)], " with ",
             Plural(report.sizes[most->size].slots, "slot"));
}

Json ReplayJson(const ReplayReport& report) {
  const std::array<uint64_t, 2> counted = CountSteps(report.trace, report.first_counted);
  Json rows = Json::array();
  for (const ReplayRow& row : report.rows) {
    const ReplaySize& size = report.sizes[row.size];
    rows.push_back({{"slots", size.slots},
                    {"cache_bytes", BytesJson(size.bytes)},
                    {"policy", kCachePolicyNames[static_cast<size_t>(row.policy)]},
                    {"all", CountsJson(report, row.all(), counted[0] + counted[1])},
                    {"prefill", CountsJson(report, row.phases[0], counted[0])},
                    {"decode", CountsJson(report, row.phases[1], counted[1])}});
  }
  Json json = {{"format", report.trace.format},
               {"model", report.trace.model},
               {"digest", report.trace.digest},
               {"layers", ShapesJson(ShapesOfTrace(report.trace))},
               {"turns", report.trace.turns.size()},
               {"tokens", report.trace.steps.size()},
               {"counted", {{"prefill", counted[0]}, {"decode", counted[1]}}},
               {"prefill_batch", report.prefill_batch}};
  if (!report.fixed_from.empty()) json["static_from"] = report.fixed_from;
  json["rows"] = std::move(rows);
  return json;
}

std::string ExpectedText(const ExpectedReport& report) {
  const char* of = report.scores.basis == ScoreBasis::kCount ? ">hits" : ">gates";
  Table table({">slots", ">cache", "policy", of});
  for (size_t i = 0; i < report.sizes.size(); ++i) {
    const std::string slots = Cat(report.sizes[i].slots), cache = SizeText(report.sizes[i].bytes);
    table.Row({slots, cache, "static", HitPercent(report.hits[i].fixed)});
    table.Row({slots, cache, "lru", HitPercent(report.hits[i].lru)});
  }
  return Cat(report.scores.format, ": ", ShapeText(report.scores.layers), "; ",
             Plural(report.scores.sessions.size(), "session"), "\n",
             Wrap("Statistics have no order. static is exact for these texts; lru is what it would "
                  "hit if no token resembled the one before it, so a real one hits more. A trace "
                  "(profile --trace) tells.",
                  0, 100),
             "\n\n", table.Render());
}

Json ExpectedJson(const ExpectedReport& report) {
  Json rows = Json::array();
  for (size_t i = 0; i < report.sizes.size(); ++i) {
    for (const auto& [policy, rate] :
         {std::pair("static", report.hits[i].fixed), std::pair("lru", report.hits[i].lru)}) {
      rows.push_back({{"slots", report.sizes[i].slots},
                      {"cache_bytes", BytesJson(report.sizes[i].bytes)},
                      {"policy", policy},
                      {"expected_rate", rate}});
    }
  }
  return {{"format", report.scores.format},
          {"basis", kScoreBasisNames[static_cast<size_t>(report.scores.basis)]},
          {"layers", ShapesJson(report.scores.layers)},
          {"sessions", report.scores.sessions.size()},
          {"expected", true},
          {"rows", std::move(rows)}};
}

}  // namespace moepack::cli
