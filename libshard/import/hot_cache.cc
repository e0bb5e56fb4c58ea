// Hot-cache JSON of llama.cpp forks: profiles that --moe-hot-cache takes and that their servers
// write. If a layer has hot_experts or cold_experts with counts, these take precedence over
// experts, and an expert's count is the sum of both; duplicates are added up. Their readers do the
// same.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/import/export.h"
#include "libshard/import/import.h"
#include "libshard/import/score_table.h"

namespace moepack {
namespace {

constexpr std::array<std::string_view, 2> kHotCacheSchemas = {"llama.cpp.moe_layer_opt_perf.v1",
                                                              "llama.cpp.moe_layer_perf.v1"};

using CountsById = std::map<uint64_t, double>;

struct HotLayer {
  uint64_t layer = 0;
  CountsById counts;
};

// Adds the [id, count] pairs of one list.
Status AddCounts(const JsonFields& layer, const char* key, CountsById& counts) {
  if (!layer.Has(key)) return Ok();
  SHARD_TRY(const Json* list, layer.Array(key));
  for (const Json& pair : *list) {
    const bool sound = pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() &&
                       pair[1].is_number_unsigned();
    if (!sound)
      return Error{Code::kCorrupt,
                   Cat(layer.where(), ": ", key, ": expected pairs of id and count, found ",
                       DescribeJson(pair))};
    const auto count = static_cast<double>(pair[1].get<uint64_t>());
    if (count > 0) counts[pair[0].get<uint64_t>()] += count;
  }
  return Ok();
}

Result<HotLayer> ReadHotLayer(const std::string& where, const Json& json) {
  if (!json.is_object())
    return Error{Code::kCorrupt,
                 Cat(where, ": layers: expected objects, found ", DescribeJson(json))};
  HotLayer layer;
  SHARD_TRY(layer.layer, JsonFields(json, where + ": layers").Unsigned("layer"));
  const JsonFields fields(json, Cat(where, ": layer ", layer.layer));
  SHARD_CHECK(AddCounts(fields, "hot_experts", layer.counts));
  SHARD_CHECK(AddCounts(fields, "cold_experts", layer.counts));
  if (layer.counts.empty()) SHARD_CHECK(AddCounts(fields, "experts", layer.counts));
  return layer;
}

Status CheckSchema(const JsonFields& fields) {
  SHARD_TRY(const std::string schema, fields.String("schema"));
  if (std::find(kHotCacheSchemas.begin(), kHotCacheSchemas.end(), schema) != kHotCacheSchemas.end())
    return Ok();
  return fields.Wrong("schema", "llama.cpp.moe_layer_opt_perf.v1 or llama.cpp.moe_layer_perf.v1");
}

Result<std::vector<HotLayer>> ReadHotLayers(const JsonFields& fields) {
  SHARD_TRY(const Json* list, fields.Array("layers"));
  SHARD_TRY(const bool enabled, fields.BoolOr("enabled", true));
  if (list->empty())
    return Error{Code::kUnsupported,
                 Cat(fields.where(), ": layers: expected at least one, found none",
                     enabled ? "" : ", because the measurement was switched off"),
                 "run the server with its measurement on and save the file again"};
  std::vector<HotLayer> layers;
  for (const Json& json : *list) {
    SHARD_TRY(HotLayer layer, ReadHotLayer(fields.where(), json));
    layers.push_back(std::move(layer));
  }
  return layers;
}

// Drops ids that the layer does not have; some servers are known to write them.
ScoreRow RowOf(const HotLayer& layer, uint64_t expert_count, double& all, double& dropped) {
  ScoreRow row{layer.layer, std::vector<double>(expert_count)};
  for (const auto& [id, count] : layer.counts) {
    all += count;
    if (id < expert_count) {
      row.scores[id] = count;
    } else {
      dropped += count;
    }
  }
  return row;
}

std::string RepairWarning(const std::string& where, uint64_t ids, double share) {
  return Cat(
      where, ": repaired: ", Plural(ids, "id"), " beyond the experts of the layer dropped, with ",
      share < 0.001 ? "less than 0.1" : Cat(std::round(share * 1000) / 10), " % of the counts");
}

// The file has one number for all layers: that of the largest.
Status CheckStatedExperts(const std::string& where, uint64_t stated, const ImportOptions& options) {
  uint32_t most = 0;
  for (const MoeLayerShape& layer : options.model) most = std::max(most, layer.expert_count);
  if (stated == 0 || most == 0 || stated == most) return Ok();
  return Error{Code::kMismatch, Cat(where, ": n_expert: expected ", most, ", found ", stated),
               "statistics belong to one model"};
}

Result<ScoreTable> TableOf(const JsonFields& fields, const std::vector<HotLayer>& layers,
                           const ImportOptions& options) {
  SHARD_TRY(const uint64_t stated, fields.UnsignedOr("n_expert", 0));
  SHARD_TRY(const uint64_t used, fields.UnsignedOr("n_expert_used", 0));
  SHARD_CHECK(CheckStatedExperts(fields.where(), stated, options));
  ScoreTable table;
  // Some versions store the total number of choices of a run there.
  table.top_k = used <= stated ? static_cast<uint32_t>(std::min<uint64_t>(used, UINT32_MAX)) : 0;
  double all = 0, dropped = 0;
  uint64_t ids = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const MoeLayerShape* shape = ModelLayer(options, layers[i].layer, i, layers.size());
    const uint64_t expert_count = shape != nullptr ? shape->expert_count : stated;
    if (expert_count == 0 || expert_count > kMaxStatisticsExperts)
      return Error{Code::kInvalidArgument,
                   Cat(fields.where(), ": n_expert: expected 1 to ", kMaxStatisticsExperts,
                       ", found ", expert_count),
                   "name the model, which says how many experts a layer has"};
    const auto beyond =
        std::distance(layers[i].counts.lower_bound(expert_count), layers[i].counts.end());
    ids += static_cast<uint64_t>(beyond);
    table.rows.push_back(RowOf(layers[i], expert_count, all, dropped));
  }
  if (ids > 0) table.warnings.push_back(RepairWarning(fields.where(), ids, dropped / all));
  return table;
}

Result<ExpertScores> ReadHotCache(const ByteSource& file, const ImportOptions& options) {
  const std::string& where = file.name();
  SHARD_CHECK(CheckBasis(where, ScoreBasis::kCount, options));
  SHARD_TRY(const Json document, ReadImportJson(file));
  const JsonFields fields(document, where);
  SHARD_CHECK(CheckSchema(fields));
  SHARD_TRY(std::vector<HotLayer> layers, ReadHotLayers(fields));
  std::stable_sort(layers.begin(), layers.end(),
                   [](const HotLayer& a, const HotLayer& b) { return a.layer < b.layer; });
  SHARD_TRY(ScoreTable table, TableOf(fields, layers, options));
  return ScoresFromTable(where, std::move(table), options);
}

bool LooksLikeHotCache(std::string_view head) {
  return JsonHeadHas(head, "\"llama.cpp.moe_layer_") || JsonHeadHas(head, "\"hot_experts\"") ||
         JsonHeadHas(head, "\"cold_experts\"");
}

}  // namespace

constinit const Importer kHotCacheImporter = {
    "hot-cache",
    "hot-cache profiles of llama.cpp forks (JSON, schemas moe_layer_opt_perf and "
    "moe_layer_perf)",
    LooksLikeHotCache, ReadHotCache};

// The initial form of the hot-cache JSON, which --moe-hot-cache takes as a plan. With a budget, the
// experts that fit are under hot_experts and the others under cold_experts; readers add both up and
// give hot ones a small advantage. Without one, all are under experts.

namespace {

using HotSet = std::set<std::pair<size_t, uint32_t>>;  // index of a layer, and expert

uint64_t BytesOfLayer(const ExpertScores& scores, const ExportOptions& options, size_t index) {
  return options.expert_bytes.at(scores.layers[index].layer);
}

// Takes experts in order as long as they fit, and skips those that do not.
void TakeHot(const ExpertScores& scores, const ExportOptions& options,
             const std::vector<RankedId>& ranked, uint64_t budget, HotSet& hot) {
  for (const RankedId& expert : ranked) {
    const uint64_t bytes = BytesOfLayer(scores, options, expert.index);
    if (expert.score <= 0 || bytes > budget) continue;
    budget -= bytes;
    hot.emplace(expert.index, expert.expert);
  }
}

HotSet ChooseHot(const ExpertScores& scores, const ExportOptions& options) {
  const std::vector<double> sums = SumOfScores(scores);
  HotSet hot;
  if (options.weighting == HotWeighting::kFlat) {
    for (size_t i = 0; i < scores.layers.size(); ++i)
      TakeHot(scores, options, RankLayer(scores, sums, i), *options.budget / scores.layers.size(),
              hot);
    return hot;
  }
  std::vector<RankedId> all;
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    const std::vector<RankedId> layer = RankLayer(scores, sums, i);
    all.insert(all.end(), layer.begin(), layer.end());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const RankedId& a, const RankedId& b) { return a.score > b.score; });
  TakeHot(scores, options, all, *options.budget, hot);
  return hot;
}

Status CheckBytesKnown(const ExpertScores& scores, const ExportOptions& options) {
  for (const MoeLayerShape& layer : scores.layers) {
    const auto found = options.expert_bytes.find(layer.layer);
    if (found != options.expert_bytes.end() && found->second > 0) continue;
    return Error{
        Code::kInvalidArgument,
        Cat("budget: expected the bytes of an expert of layer ", layer.layer, ", found none"),
        "name the model with its tensors, which says how large its experts are"};
  }
  return Ok();
}

Json HotLayerJson(const ExpertScores& scores, const std::vector<uint64_t>& counts, size_t index,
                  const HotSet* hot) {
  Json experts = Json::array(), hot_experts = Json::array(), cold_experts = Json::array();
  const size_t offset = scores.Offset(index);
  for (uint32_t e = 0; e < scores.layers[index].expert_count; ++e) {
    const uint64_t count = counts[offset + e];
    if (count == 0) continue;
    Json pair = Json::array();
    pair.push_back(e);
    pair.push_back(count);
    if (hot != nullptr) (hot->contains({index, e}) ? hot_experts : cold_experts).push_back(pair);
    experts.push_back(std::move(pair));
  }
  uint64_t calls = 0;
  for (const SessionScores& session : scores.sessions) calls += session.tokens;
  return {{"layer", scores.layers[index].layer},
          {"calls", calls},
          {"experts", std::move(experts)},
          {"hot_experts", std::move(hot_experts)},
          {"cold_experts", std::move(cold_experts)}};
}

Result<std::string> WriteHotCache(const ExpertScores& scores, const ExportOptions& options) {
  std::optional<HotSet> hot;
  if (options.budget) {
    SHARD_CHECK(CheckBytesKnown(scores, options));
    hot = ChooseHot(scores, options);
    if (hot->empty())
      return Error{
          Code::kInvalidArgument,
          Cat("budget: expected room for an expert in a layer, found ",
              FormatBytes(*options.budget), " for ", Plural(scores.layers.size(), "layer")),
          "raise the budget, or spend it on the best of all layers (--weighting mass)"};
  }
  const std::vector<uint64_t> counts = WholeSums(scores);
  uint32_t expert_count = 0, top_k = 0;
  Json layers = Json::array();
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    expert_count = std::max(expert_count, scores.layers[i].expert_count);
    top_k = std::max(top_k, scores.layers[i].top_k);
    layers.push_back(HotLayerJson(scores, counts, i, hot ? &*hot : nullptr));
  }
  Json json = {{"enabled", true},
               {"mode", "update"},
               {"schema", "llama.cpp.moe_layer_opt_perf.v1"},
               {"n_expert", expert_count}};
  if (top_k > 0) json["n_expert_used"] = top_k;
  json["layers"] = std::move(layers);
  return WriteJson(json);
}

}  // namespace

constinit const Exporter kHotCacheExporter = {
    "hot-cache",
    "a profile for --moe-hot-cache of llama.cpp forks (JSON)",
    ScoreBasis::kCount,
    true,
    false,
    WriteHotCache};

}  // namespace moepack
