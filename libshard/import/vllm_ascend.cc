// Expert lists of vllm-ascend: a line {"<layer>": [ids, best first]} per layer. The share to prune
// (expert_prune_ratio) is in its configuration; if a line has it, it is skipped.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/import/export.h"
#include "libshard/import/import.h"
#include "libshard/import/score_table.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxListBytes = 64u << 20;
constexpr const char* kPruneRatio = "expert_prune_ratio";

struct RankedLayer {
  uint64_t layer = 0;
  std::vector<uint64_t> ids;  // best first
};

Result<RankedLayer> ReadRankedLayer(const std::string& place, const std::string& key,
                                    const Json& value) {
  RankedLayer layer;
  SHARD_TRY(layer.layer, LayerKey(place, key));
  const std::string where = Cat(place, ": layer ", layer.layer);
  if (!value.is_array() || value.size() > kMaxStatisticsExperts)
    return Error{Code::kCorrupt, Cat(where, ": expected a list of at most ", kMaxStatisticsExperts,
                                     " ids, found ", DescribeJson(value))};
  std::set<uint64_t> seen;
  for (const Json& id : value) {
    if (!id.is_number_unsigned())
      return Error{Code::kCorrupt, Cat(where, ": expected ids, found ", DescribeJson(id))};
    layer.ids.push_back(id.get<uint64_t>());
    if (seen.insert(layer.ids.back()).second) continue;
    return Error{Code::kCorrupt,
                 Cat(where, ": expert ", layer.ids.back(), ": expected once, found twice")};
  }
  return layer;
}

Result<std::vector<RankedLayer>> ReadRankedLayers(const std::string& where,
                                                  const std::string& text) {
  std::vector<RankedLayer> layers;
  size_t number = 0;
  for (const std::string& line : Split(text, '\n')) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::string place = Cat(where, ": line ", number);
    SHARD_TRY(const Json object, ParseJson(place, line));
    if (!object.is_object())
      return Error{Code::kCorrupt,
                   Cat(place, ": expected an object, found ", DescribeJson(object))};
    for (const auto& [key, value] : object.items()) {
      if (key == kPruneRatio) continue;
      SHARD_TRY(RankedLayer layer, ReadRankedLayer(place, key, value));
      layers.push_back(std::move(layer));
    }
  }
  std::stable_sort(layers.begin(), layers.end(),
                   [](const RankedLayer& a, const RankedLayer& b) { return a.layer < b.layer; });
  return layers;
}

// If all ids are listed, their number is that of the layer's experts.
std::optional<uint32_t> CountOf(const RankedLayer& layer, const MoeLayerShape* shape) {
  if (shape != nullptr) return shape->expert_count;
  uint64_t most = 0;
  for (const uint64_t id : layer.ids) most = std::max(most, id + 1);
  if (most != layer.ids.size()) return std::nullopt;
  return static_cast<uint32_t>(most);
}

Result<ExpertScores> ReadVllmAscend(const ByteSource& file, const ImportOptions& options) {
  const std::string& where = file.name();
  SHARD_CHECK(CheckBasis(where, ScoreBasis::kCount, options));
  SHARD_TRY(const std::string text, ReadText(file, kMaxListBytes));
  SHARD_TRY(const std::vector<RankedLayer> layers, ReadRankedLayers(where, text));
  ScoreTable table;
  table.warnings.push_back(RanksWarning(where));
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string place = Cat(where, ": layer ", layers[i].layer);
    const auto expert_count =
        CountOf(layers[i], ModelLayer(options, layers[i].layer, i, layers.size()));
    if (!expert_count)
      return Error{Code::kInvalidArgument,
                   Cat(place, ": experts: expected all ids, found ", layers[i].ids.size(),
                       " without those between"),
                   "name the model, which says how many experts a layer has"};
    SHARD_TRY(std::vector<double> scores, ScoresFromRanks(place, layers[i].ids, *expert_count));
    table.rows.push_back({layers[i].layer, std::move(scores)});
  }
  return ScoresFromTable(where, std::move(table), options);
}

// {"<digits>": [
bool LooksLikeVllmAscend(std::string_view head) {
  std::string start;
  for (const char c : head.substr(0, 64)) {
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n') start += c;
  }
  if (start.starts_with("{\"expert_prune_ratio\"")) return true;
  if (!start.starts_with("{\"")) return false;
  const size_t digits = start.find_first_not_of("0123456789", 2);
  return digits != start.npos && digits > 2 && start.substr(digits).starts_with("\":[");
}

}  // namespace

constinit const Importer kVllmAscendImporter = {
    "vllm-ascend", "expert lists of vllm-ascend (JSONL), ids of a layer best first",
    LooksLikeVllmAscend, ReadVllmAscend};

// Expert lists of vllm-ascend: a line per layer, ids best first. Its option expert_prune_ratio
// determines how many are kept.

namespace {

Result<std::string> WriteVllmAscend(const ExpertScores& scores, const ExportOptions&) {
  const std::vector<double> sums = SumOfScores(scores);
  std::string text;
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    std::vector<std::string> ids;
    for (const RankedId& expert : RankLayer(scores, sums, i)) ids.push_back(Cat(expert.expert));
    text += Cat("{\"", scores.layers[i].layer, "\": [", Join(ids, ", "), "]}\n");
  }
  return text;
}

}  // namespace

constinit const Exporter kVllmAscendExporter = {
    "vllm-ascend", "an expert list for vllm-ascend (JSONL), ids best first",
    std::nullopt,  false,
    false,         WriteVllmAscend};

}  // namespace moepack
