// REAP's observer (https://github.com/CerebrasResearch/reap) keeps per layer total_tokens,
// expert_frequency (count), weighted_expert_frequency_sum (sum of gates), weighted_ean_sum (sum of
// gate times norm of the output), reap (its mean over the expert's tokens) and max_activations.
#include "libshard/import/reap_columns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "libshard/base/text/text.h"
#include "libshard/import/score_table.h"
#include "libshard/stats/summary.h"

namespace moepack {
namespace {

constexpr std::string_view kFrequency = "expert_frequency", kReap = "reap",
                           kGates = "weighted_expert_frequency_sum",
                           kGatesAlias = "weighted_frequency_sum", kNorms = "weighted_ean_sum",
                           kPeaks = "max_activations", kTokens = "total_tokens";
constexpr std::array kReapColumns = {kFrequency, kReap,  kGates, kGatesAlias,
                                     kNorms,     kPeaks, kTokens};

bool AllHave(const std::vector<ReapLayer>& layers, std::string_view name) {
  return std::all_of(layers.begin(), layers.end(),
                     [&](const ReapLayer& layer) { return layer.columns.contains(name); });
}

// Where a score of some basis comes from.
struct ReapSource {
  ScoreBasis basis;
  std::string_view column;
  bool times_frequency = false;
  const char* warning = nullptr;
};

// In the order of preference.
constexpr std::array kReapSources = {
    ReapSource{ScoreBasis::kWeightedNorm, kNorms},
    ReapSource{ScoreBasis::kWeightedNorm, kReap, true},
    ReapSource{
        ScoreBasis::kWeightedNorm, kReap, false,
        "reap is a mean over the tokens of an expert; without expert_frequency, experts that "
        "are rarely chosen rank too high"},
    ReapSource{ScoreBasis::kGateMass, kGates},
    ReapSource{ScoreBasis::kGateMass, kGatesAlias},
    ReapSource{ScoreBasis::kCount, kFrequency},
};

Result<ReapSource> ChooseSource(const std::string& where, const std::vector<ReapLayer>& layers,
                                const ImportOptions& options) {
  for (const ReapSource& source : kReapSources) {
    if (options.basis && *options.basis != source.basis) continue;
    if (AllHave(layers, source.column) && (!source.times_frequency || AllHave(layers, kFrequency)))
      return source;
  }
  return Error{options.basis ? Code::kInvalidArgument : Code::kUnsupported,
               Cat(where, ": expected ",
                   options.basis ? Cat("scores of the kind ",
                                       kScoreBasisNames[static_cast<size_t>(*options.basis)])
                                 : "weighted_ean_sum, reap, weighted_expert_frequency_sum or "
                                   "expert_frequency",
                   " in every layer, found none")};
}

Result<ScoreRow> ReapRow(const std::string& where, ReapLayer& layer, const ReapSource& source) {
  ScoreRow row{layer.layer, std::move(layer.columns.find(source.column)->second)};
  if (!source.times_frequency) return row;
  const std::vector<double>& frequency = layer.columns.find(kFrequency)->second;
  if (frequency.size() != row.scores.size())
    return Error{Code::kCorrupt,
                 Cat(where, ": layer ", layer.layer, ": ", kFrequency, ": expected ",
                     row.scores.size(), " numbers, found ", frequency.size())};
  for (size_t e = 0; e < row.scores.size(); ++e) row.scores[e] *= frequency[e];
  return row;
}

Result<uint64_t> TokensOfReapLayer(const std::string& where, const ReapLayer& layer,
                                   const std::vector<double>& tokens) {
  const std::string place = Cat(where, ": layer ", layer.layer, ": ", kTokens);
  if (tokens.size() != 1)
    return Error{Code::kCorrupt, Cat(place, ": expected one number, found ", tokens.size())};
  const bool sound = tokens[0] >= 0 && tokens[0] == std::floor(tokens[0]) &&
                     tokens[0] <= static_cast<double>(kMaxStatisticsTokens);
  if (sound) return static_cast<uint64_t>(tokens[0]);
  return Error{Code::kCorrupt, Cat(place, ": expected a whole number from 0 to ",
                                   kMaxStatisticsTokens, ", found ", tokens[0])};
}

// The number of tokens that every layer saw; 0 if layers differ or do not say.
Result<uint64_t> TokensOfReap(const std::string& where, const std::vector<ReapLayer>& layers) {
  std::optional<uint64_t> common;
  bool same = true;
  for (const ReapLayer& layer : layers) {
    const auto column = layer.columns.find(kTokens);
    if (column == layer.columns.end()) {
      same = false;
      continue;
    }
    SHARD_TRY(const uint64_t tokens, TokensOfReapLayer(where, layer, column->second));
    same = same && common.value_or(tokens) == tokens;
    common = tokens;
  }
  return same ? common.value_or(0) : 0;
}

// In layer order; empty if a layer has no peaks or the wrong number of them.
std::vector<std::vector<float>> PeaksOfReap(const std::vector<ReapLayer>& layers) {
  std::vector<std::vector<float>> peaks;
  if (!AllHave(layers, kPeaks)) return peaks;
  for (const ReapLayer& layer : layers) {
    std::vector<float>& of_layer = peaks.emplace_back();
    for (const double peak : layer.columns.find(kPeaks)->second)
      of_layer.push_back(peak >= 0 ? static_cast<float>(peak) : 0);
  }
  return peaks;
}

void AddSuperExperts(const std::vector<std::vector<float>>& peaks, ExpertScores& scores) {
  if (peaks.size() != scores.layers.size()) return;
  for (size_t i = 0; i < peaks.size(); ++i) {
    if (peaks[i].size() != scores.layers[i].expert_count) return;
  }
  for (const SuperExpert& expert : FindSuperExperts(scores.layers, peaks))
    scores.super_experts[expert.layer].push_back(expert.expert);
}

}  // namespace

bool IsReapColumn(std::string_view name) {
  return std::find(kReapColumns.begin(), kReapColumns.end(), name) != kReapColumns.end();
}

Result<ExpertScores> ScoresFromReap(const std::string& where, std::vector<ReapLayer> layers,
                                    const ImportOptions& options) {
  if (layers.empty())
    return Error{Code::kCorrupt, Cat(where, ": layers: expected at least one, found none")};
  std::stable_sort(layers.begin(), layers.end(),
                   [](const ReapLayer& a, const ReapLayer& b) { return a.layer < b.layer; });
  SHARD_TRY(const ReapSource source, ChooseSource(where, layers, options));
  const std::vector<std::vector<float>> peaks = PeaksOfReap(layers);
  ScoreTable table;
  table.basis = source.basis;
  SHARD_TRY(table.tokens, TokensOfReap(where, layers));
  for (ReapLayer& layer : layers) {
    SHARD_TRY(ScoreRow row, ReapRow(where, layer, source));
    table.rows.push_back(std::move(row));
  }
  if (source.warning != nullptr) table.warnings.push_back(Cat(where, ": ", source.warning));
  SHARD_TRY(ExpertScores scores, ScoresFromTable(where, std::move(table), options));
  AddSuperExperts(peaks, scores);
  return scores;
}

}  // namespace moepack
