// The initial form of the hot-cache JSON, which --moe-hot-cache takes as a plan. With a budget, the
// experts that fit are under hot_experts and the others under cold_experts; readers add both up and
// give hot ones a small advantage. Without one, all are under experts.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/import/export.h"

namespace moepack {
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
