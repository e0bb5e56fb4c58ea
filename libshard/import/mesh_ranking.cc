// ranking.csv of mesh-llm: one ranking of ids for all layers. Three shapes: the analyzer's output
// ("# Format: expert_id,gate_mass,mass_pct,selection_count"), the same under a line of headings,
// and the cache's list of ids, best first.
//
// Ids of different layers were added up, so the ranking says little. Also, its analyzer counted a
// reshaped view of the router's output as one expert with as many tokens as there are experts, and
// credited all of that to expert 0.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/import/import.h"
#include "libshard/import/score_table.h"
#include "libshard/stats/quantile.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxRankingBytes = 16u << 20;
constexpr double kArtefactShare = 0.9;
// Used if the top-k is not known: the smallest of routers that choose more than one. A larger one
// would make the share larger.
constexpr uint32_t kLeastTopK = 2;

struct RankedExpert {
  uint64_t id = 0;
  double mass = 0;
  uint64_t selections = 0;
};

struct MeshRanking {
  std::vector<RankedExpert> experts;  // best first
  bool ids_only = false;
  std::optional<uint64_t> stated_experts;
  uint32_t top_k = 0;
};

// "# Experts: 128 (top-8)".
void ReadComment(std::string_view line, MeshRanking& ranking) {
  constexpr std::string_view kExperts = "# Experts: ", kTop = "(top-";
  if (!line.starts_with(kExperts)) return;
  line.remove_prefix(kExperts.size());
  ranking.stated_experts = ParseUint(line.substr(0, line.find(' ')));
  const size_t top = line.find(kTop);
  if (top == line.npos) return;
  const std::string_view number = line.substr(top + kTop.size());
  const auto top_k = ParseUint(number.substr(0, number.find(')')));
  if (top_k && *top_k <= kMaxStatisticsExperts) ranking.top_k = static_cast<uint32_t>(*top_k);
}

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::optional<double> ParseMass(std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = problem == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

Result<RankedExpert> ReadRankRow(const std::string& place, std::string_view line) {
  std::vector<std::string> cells = Split(line, ',');
  for (std::string& cell : cells) cell = std::string(Trimmed(cell));
  const Error wrong{Code::kCorrupt, Cat(place,
                                        ": expected an id alone, or an id, a mass, its share and "
                                        "a count, found ",
                                        Quoted(line))};
  if (cells.size() != 1 && cells.size() != 4) return wrong;
  const auto id = ParseUint(cells[0]);
  if (!id) return wrong;
  RankedExpert expert{*id};
  if (cells.size() == 1) return expert;
  const auto mass = ParseMass(cells[1]);
  const auto selections = ParseUint(cells[3]);
  if (!mass || !ParseMass(cells[2]) || !selections) return wrong;
  expert.mass = *mass;
  expert.selections = *selections;
  return expert;
}

Result<MeshRanking> ReadRanking(const std::string& where, const std::string& text) {
  MeshRanking ranking;
  size_t number = 0;
  for (const std::string& whole : Split(text, '\n')) {
    ++number;
    const std::string_view line = Trimmed(whole);
    if (line.starts_with('#')) ReadComment(line, ranking);
    if (line.empty() || line.starts_with('#') || line.starts_with("expert")) continue;
    const std::string place = Cat(where, ": line ", number);
    SHARD_TRY(const RankedExpert expert, ReadRankRow(place, line));
    const bool id_only = line.find(',') == line.npos;
    if (ranking.experts.empty()) ranking.ids_only = id_only;
    if (ranking.ids_only != id_only)
      return Error{Code::kCorrupt, Cat(place,
                                       ": expected as many columns as in the rows before, "
                                       "found ",
                                       Quoted(line))};
    if (ranking.experts.size() == kMaxStatisticsExperts)
      return Error{Code::kCorrupt,
                   Cat(where, ": rows: expected at most ", kMaxStatisticsExperts, ", found more")};
    ranking.experts.push_back(expert);
  }
  return ranking;
}

Status CheckRanking(const std::string& where, const MeshRanking& ranking,
                    const ImportOptions& options) {
  const uint64_t found = ranking.experts.size();
  if (found == 0)
    return Error{Code::kCorrupt, Cat(where, ": rows: expected one per expert, found none")};
  uint64_t expected = ranking.stated_experts.value_or(found);
  for (const MoeLayerShape& layer : options.model) {
    if (layer.expert_count != found)
      return Error{
          Code::kMismatch,
          Cat(where, ": rows: expected one for each of the ", Plural(layer.expert_count, "expert"),
              " of layer ", layer.layer, ", found ", found),
          "statistics belong to one model"};
  }
  if (found != expected)
    return Error{Code::kCorrupt, Cat(where, ": rows: expected one for each of ",
                                     Plural(expected, "expert"), ", found ", found)};
  return Ok();
}

// The share of observations (tokens times layers) that chose the first expert. The choices of the
// others give the number of real observations, since each observation has `top_k`.
double FirstShare(const MeshRanking& ranking) {
  double others = 0;
  for (const RankedExpert& expert : ranking.experts)
    others += static_cast<double>(expert.selections);
  const auto first = static_cast<double>(ranking.experts.front().selections);
  others -= first;
  return first > 0 ? first / (first + others / ranking.top_k) : 0;
}

double MedianOfOthers(const MeshRanking& ranking) {
  std::vector<double> masses;
  for (size_t i = 1; i < ranking.experts.size(); ++i) masses.push_back(ranking.experts[i].mass);
  return Quantile(std::move(masses), 0.5);
}

// Removes what the analyzer wrongly credits to expert 0.
void RepairFirst(const std::string& where, MeshRanking& ranking,
                 std::vector<std::string>& warnings) {
  if (ranking.experts.front().id != 0) return;
  if (ranking.ids_only) {
    warnings.push_back(Cat(where,
                           ": expert 0 leads, as it does where the analyzer counted a view "
                           "of the router's output as expert 0; without counts it cannot "
                           "be told"));
    return;
  }
  if (ranking.top_k == 0) ranking.top_k = kLeastTopK;
  const double share = FirstShare(ranking);
  if (share <= kArtefactShare || ranking.experts.size() < 2) return;
  ranking.experts.front().mass = MedianOfOthers(ranking);
  warnings.push_back(Cat(where, ": repaired: expert 0 leads with ", std::round(share * 1000) / 10,
                         " % of the selections, because the analyzer counted a view of the "
                         "router's output as expert 0; its mass is not known and is set to the "
                         "median of the others"));
}

Result<std::vector<double>> MassesById(const std::string& where, const MeshRanking& ranking) {
  std::vector<uint64_t> ids;
  for (const RankedExpert& expert : ranking.experts) ids.push_back(expert.id);
  SHARD_TRY(std::vector<double> scores,
            ScoresFromRanks(where, ids, static_cast<uint32_t>(ids.size())));
  if (ranking.ids_only) return scores;
  for (const RankedExpert& expert : ranking.experts) scores[expert.id] = expert.mass;
  return scores;
}

Result<ExpertScores> ReadMeshRanking(const ByteSource& file, const ImportOptions& options) {
  const std::string& where = file.name();
  SHARD_TRY(const std::string text, ReadText(file, kMaxRankingBytes));
  SHARD_TRY(MeshRanking ranking, ReadRanking(where, text));
  SHARD_CHECK(CheckRanking(where, ranking, options));
  ScoreTable table;
  table.basis = ranking.ids_only ? ScoreBasis::kCount : ScoreBasis::kGateMass;
  SHARD_CHECK(CheckBasis(where, table.basis, options));
  if (ranking.top_k == 0 && !options.model.empty()) ranking.top_k = options.model.front().top_k;
  table.top_k = ranking.top_k;
  table.warnings.push_back(
      Cat(where,
          ": one ranking for all layers: ids of different layers were added up, which makes "
          "it little better than chance; profile the model instead"));
  if (ranking.ids_only) table.warnings.push_back(RanksWarning(where));
  RepairFirst(where, ranking, table.warnings);
  SHARD_TRY(const std::vector<double> scores, MassesById(where, ranking));
  if (options.model.empty()) table.rows.push_back({0, scores});
  for (const MoeLayerShape& layer : options.model) table.rows.push_back({layer.layer, scores});
  SHARD_TRY(ExpertScores result, ScoresFromTable(where, std::move(table), options));
  result.layer_agnostic = true;
  return result;
}

bool LooksLikeMeshRanking(std::string_view head) {
  return head.starts_with("# MoE expert ranking") || head.starts_with("# mesh-llm-moe-ranking=") ||
         head.starts_with("expert_id,");
}

}  // namespace

constinit const Importer kMeshRankingImporter = {
    "mesh-ranking",
    "ranking.csv of mesh-llm in its three shapes; one ranking for all layers, which "
    "says little",
    LooksLikeMeshRanking, ReadMeshRanking};

}  // namespace moepack
