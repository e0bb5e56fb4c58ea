#include "libshard/import/reap.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"
#include "libshard/format/read_header.h"
#include "libshard/import/import.h"
#include "libshard/import/score_table.h"
#include "libshard/stats/summary.h"

namespace moepack {

// REAP's observer (https://github.com/CerebrasResearch/reap) keeps per layer total_tokens,
// expert_frequency (count), weighted_expert_frequency_sum (sum of gates), weighted_ean_sum (sum of
// gate times norm of the output), reap (its mean over the expert's tokens) and max_activations.

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

// REAP's observations as JSON: {"<layer>": {"expert_frequency": [...], ...}, ...}, perhaps under
// "layers". docs/statistics.md has the lines of Python that convert a .pt file.

namespace {

// One number counts as a list of one.
Result<std::vector<double>> ReapColumn(const std::string& where, const Json& value) {
  if (value.is_number()) return std::vector<double>{value.get<double>()};
  return JsonNumbers(where, value);
}

Result<ExpertScores> ReadReapJson(const ByteSource& file, const ImportOptions& options) {
  const std::string& where = file.name();
  SHARD_TRY(const Json document, ReadImportJson(file));
  const auto inner = document.find("layers");
  const Json& by_layer = inner != document.end() && inner->is_object() ? *inner : document;
  std::vector<ReapLayer> layers;
  for (const auto& [key, columns] : by_layer.items()) {
    ReapLayer layer;
    SHARD_TRY(layer.layer, LayerKey(where, key));
    const std::string place = Cat(where, ": layer ", layer.layer);
    if (!columns.is_object())
      return Error{Code::kCorrupt,
                   Cat(place, ": expected an object of lists, found ", DescribeJson(columns))};
    for (const auto& [name, value] : columns.items()) {
      if (!IsReapColumn(name) || value.is_null()) continue;
      SHARD_TRY(layer.columns[name], ReapColumn(Cat(place, ": ", name), value));
    }
    layers.push_back(std::move(layer));
  }
  return ScoresFromReap(where, std::move(layers), options);
}

bool LooksLikeReap(std::string_view head) {
  for (const char* key : {"\"expert_frequency\"", "\"weighted_ean_sum\"", "\"reap\"",
                          "\"weighted_expert_frequency_sum\""}) {
    if (JsonHeadHas(head, key)) return true;
  }
  return false;
}

}  // namespace

constinit const Importer kReapImporter = {
    "reap", "observations of REAP as JSON, a list of numbers per layer and measure", LooksLikeReap,
    ReadReapJson};

// REAP's observations as safetensors, whose tensors are named "<layer>.<measure>".

namespace {

template <class T>
std::vector<double> ValuesOf(std::span<const std::byte> bytes) {
  std::vector<double> values;
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T))
    values.push_back(static_cast<double>(LoadLe<T>(bytes.subspan(at))));
  return values;
}

struct NumberType {
  std::string_view dtype;
  std::vector<double> (*read)(std::span<const std::byte>);
};
// The types that PyTorch uses for sums and counters.
constexpr std::array kNumberTypes = {
    NumberType{"F32", ValuesOf<float>}, NumberType{"F64", ValuesOf<double>},
    NumberType{"I32", ValuesOf<int32_t>}, NumberType{"I64", ValuesOf<int64_t>}};

constexpr uint64_t kMaxColumnBytes = kMaxStatisticsExperts * sizeof(double);

Result<std::vector<double>> ReadColumnTensor(const ByteSource& file, const TensorEntry& tensor) {
  const std::string place = Cat(file.name(), ": tensor ", Quoted(tensor.name));
  if (tensor.bytes > kMaxColumnBytes)
    return Error{Code::kCorrupt, Cat(place, ": expected one number per expert, at most ",
                                     kMaxColumnBytes, " bytes, found ", tensor.bytes)};
  for (const NumberType& type : kNumberTypes) {
    if (type.dtype != tensor.dtype) continue;
    std::vector<std::byte> bytes(tensor.bytes);
    SHARD_CHECK(file.ReadAt(tensor.offset, bytes));
    return type.read(bytes);
  }
  return Error{Code::kUnsupported,
               Cat(place, ": expected F32, F64, I32 or I64, found ", Shown(tensor.dtype))};
}

Result<ExpertScores> ReadReapTensors(const ByteSource& file, const ImportOptions& options) {
  const std::string& where = file.name();
  SHARD_TRY(const SafetensorsHeader header, ReadSafetensorsHeader(file, where));
  std::map<uint64_t, ReapLayer> by_number;
  for (const TensorEntry& tensor : header.tensors) {
    const size_t dot = tensor.name.find('.');
    const auto number = ParseUint(tensor.name.substr(0, dot));
    if (dot == tensor.name.npos || !number)
      return Error{Code::kUnsupported,
                   Cat(where, ": tensor ", Quoted(tensor.name),
                       ": expected a name such as \"0.expert_frequency\", found another"),
                   "statistics as safetensors are those of REAP (docs/statistics.md)"};
    const std::string measure = tensor.name.substr(dot + 1);
    if (!IsReapColumn(measure)) continue;
    ReapLayer& layer = by_number[*number];
    layer.layer = *number;
    SHARD_TRY(layer.columns[measure], ReadColumnTensor(file, tensor));
  }
  std::vector<ReapLayer> layers;
  for (auto& [number, layer] : by_number) layers.push_back(std::move(layer));
  return ScoresFromReap(where, std::move(layers), options);
}

// A header length of eight bytes, and the header's object.
bool LooksLikeSafetensors(std::string_view head) {
  if (head.size() <= kSafetensorsLengthBytes || head[kSafetensorsLengthBytes] != '{') return false;
  return LoadLe<uint64_t>(std::as_bytes(std::span(head))) <= kMaxSafetensorsHeader;
}

}  // namespace

constinit const Importer kReapTensorsImporter = {
    "reap-tensors", "the same as safetensors, with tensors named <layer>.<measure>",
    LooksLikeSafetensors, ReadReapTensors};

}  // namespace moepack
