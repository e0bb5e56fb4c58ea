#include "libshard/import/score_table.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "libshard/base/text/json_values.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

std::string Place(const std::string& where, uint64_t layer) {
  return Cat(where, ": layer ", layer);
}

bool IsEmptyRow(const ScoreRow& row) {
  return std::all_of(row.scores.begin(), row.scores.end(), [](double x) { return x == 0; });
}

Status CheckRows(const std::string& where, std::vector<ScoreRow>& rows) {
  if (rows.empty())
    return Error{Code::kCorrupt, Cat(where, ": layers: expected at least one, found none")};
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ScoreRow& a, const ScoreRow& b) { return a.layer < b.layer; });
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string place = Place(where, rows[i].layer);
    if (i > 0 && rows[i - 1].layer == rows[i].layer)
      return Error{Code::kCorrupt, Cat(place, ": expected once, found twice")};
    if (rows[i].layer >= kMaxStatisticsLayers)
      return Error{Code::kCorrupt, Cat(place, ": expected a number below ", kMaxStatisticsLayers)};
    for (size_t e = 0; e < rows[i].scores.size(); ++e) {
      const double score = rows[i].scores[e];
      if (score >= 0 && score <= FLT_MAX) continue;
      return Error{Code::kCorrupt, Cat(place, ": expert ", e,
                                       ": expected a finite score, not negative, found ", score)};
    }
  }
  return Ok();
}

bool SameNumbers(const std::vector<ScoreRow>& rows, const std::vector<MoeLayerShape>& model) {
  return std::equal(
      rows.begin(), rows.end(), model.begin(), model.end(),
      [](const ScoreRow& row, const MoeLayerShape& layer) { return row.layer == layer.layer; });
}

bool HasLayer(const std::vector<MoeLayerShape>& model, uint64_t layer) {
  return std::any_of(model.begin(), model.end(),
                     [&](const MoeLayerShape& shape) { return shape.layer == layer; });
}

Error OtherLayers(const std::string& where, const std::vector<ScoreRow>& rows,
                  const std::vector<MoeLayerShape>& model) {
  const char* const hint = "statistics belong to one model";
  for (const MoeLayerShape& shape : model) {
    const bool found = std::any_of(rows.begin(), rows.end(),
                                   [&](const ScoreRow& row) { return row.layer == shape.layer; });
    if (!found)
      return {
          Code::kMismatch,
          Cat(Place(where, shape.layer), ": expected scores of ",
              Plural(shape.expert_count, "expert"), ", found no such layer among ", rows.size()),
          hint};
  }
  const auto extra = std::find_if(rows.begin(), rows.end(),
                                  [&](const ScoreRow& row) { return !HasLayer(model, row.layer); });
  return {Code::kMismatch,
          Cat(Place(where, extra->layer), ": expected no such layer, because the model has ",
              model.size(), " with experts, found scores"),
          hint};
}

std::string PositionWarning(const std::string& where, const std::vector<ScoreRow>& rows,
                            const std::vector<MoeLayerShape>& model) {
  return Cat(where, ": layers ", rows.front().layer, " to ", rows.back().layer,
             " are taken by position for layers ", model.front().layer, " to ", model.back().layer,
             " of the model, which has as many with experts");
}

// Leaves one row for each layer of the model, with its number.
Status FitRows(const std::string& where, const ImportOptions& options, ScoreTable& table) {
  std::vector<ScoreRow>& rows = table.rows;
  if (options.model.empty()) {
    if (!table.all_blocks) return Ok();
    const size_t before = rows.size();
    std::erase_if(rows, IsEmptyRow);
    if (rows.size() == before) return Ok();
    table.warnings.push_back(Cat(where, ": ", before - rows.size(), " of ", Plural(before, "layer"),
                                 " hold nothing and are taken for blocks without experts"));
    return Ok();
  }
  if (SameNumbers(rows, options.model)) return Ok();
  if (rows.size() != options.model.size()) {
    std::erase_if(rows, [&](const ScoreRow& row) {
      return IsEmptyRow(row) && !HasLayer(options.model, row.layer);
    });
  }
  if (SameNumbers(rows, options.model)) return Ok();
  if (rows.size() != options.model.size()) return OtherLayers(where, rows, options.model);
  table.warnings.push_back(PositionWarning(where, rows, options.model));
  for (size_t i = 0; i < rows.size(); ++i) rows[i].layer = options.model[i].layer;
  return Ok();
}

Status CheckSizes(const std::string& where, const ScoreTable& table, const ImportOptions& options) {
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const std::string place = Place(where, table.rows[i].layer);
    const size_t found = table.rows[i].scores.size();
    if (found == 0 || found > kMaxStatisticsExperts)
      return Error{Code::kCorrupt, Cat(place, ": experts: expected 1 to ", kMaxStatisticsExperts,
                                       ", found ", found)};
    if (options.model.empty() || found == options.model[i].expert_count) continue;
    return Error{
        Code::kMismatch,
        Cat(place, ": experts: expected ", options.model[i].expert_count, ", found ", found),
        "statistics belong to one model"};
  }
  return Ok();
}

}  // namespace

Result<ExpertScores> ScoresFromTable(const std::string& where, ScoreTable table,
                                     const ImportOptions& options) {
  SHARD_CHECK(CheckRows(where, table.rows));
  SHARD_CHECK(FitRows(where, options, table));
  SHARD_CHECK(CheckSizes(where, table, options));
  ExpertScores scores;
  scores.basis = table.basis;
  scores.warnings = std::move(table.warnings);
  SessionScores& session = scores.sessions.emplace_back();
  session.tokens = table.tokens;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const ScoreRow& row = table.rows[i];
    const uint32_t known = options.model.empty() ? 0 : options.model[i].top_k;
    const auto expert_count = static_cast<uint32_t>(row.scores.size());
    const uint32_t top_k = known > 0 ? known : std::min(table.top_k, expert_count);
    scores.layers.push_back({static_cast<uint32_t>(row.layer), expert_count, top_k});
    for (const double score : row.scores) session.scores.push_back(static_cast<float>(score));
  }
  return scores;
}

Error WithoutBasis(const std::string& where, std::initializer_list<ScoreBasis> found,
                   ScoreBasis wanted) {
  std::vector<std::string> names;
  for (const ScoreBasis basis : found)
    names.emplace_back(kScoreBasisNames[static_cast<size_t>(basis)]);
  return {Code::kInvalidArgument,
          Cat(where, ": scores: expected ", kScoreBasisNames[static_cast<size_t>(wanted)],
              ", found only ", Join(names, " and ")),
          "leave --score out to take what the file has"};
}

Status CheckBasis(const std::string& where, ScoreBasis found, const ImportOptions& options) {
  if (!options.basis || *options.basis == found) return Ok();
  return WithoutBasis(where, {found}, *options.basis);
}

Result<Json> ReadImportJson(const ByteSource& file) {
  SHARD_TRY(const std::string text, ReadText(file, kMaxImportBytes));
  return ParseJsonObject(file.name(), text, kMaxImportValues);
}

Result<std::vector<double>> JsonNumbers(const std::string& where, const Json& value) {
  if (!value.is_array())
    return Error{Code::kCorrupt,
                 Cat(where, ": expected a list of numbers, found ", DescribeJson(value))};
  std::vector<double> numbers;
  numbers.reserve(value.size());
  for (const Json& item : value) {
    if (!item.is_number())
      return Error{Code::kCorrupt, Cat(where, ": ", numbers.size(), ": expected a number, found ",
                                       DescribeJson(item))};
    numbers.push_back(item.get<double>());
  }
  return numbers;
}

Result<uint64_t> LayerKey(const std::string& where, const std::string& key) {
  const std::optional<uint64_t> layer = ParseUint(key);
  if (layer) return *layer;
  return Error{Code::kCorrupt,
               Cat(where, ": key: expected the number of a layer, found ", Quoted(key))};
}

const MoeLayerShape* ModelLayer(const ImportOptions& options, uint64_t layer, size_t position,
                                size_t count) {
  for (const MoeLayerShape& shape : options.model) {
    if (shape.layer == layer) return &shape;
  }
  return count == options.model.size() && position < count ? &options.model[position] : nullptr;
}

Result<std::vector<double>> ScoresFromRanks(const std::string& where,
                                            const std::vector<uint64_t>& ids,
                                            uint32_t expert_count) {
  std::vector<double> scores(expert_count);
  for (size_t rank = 0; rank < ids.size(); ++rank) {
    if (ids[rank] >= expert_count)
      return Error{Code::kCorrupt, Cat(where, ": expert: expected an id below ", expert_count,
                                       ", found ", ids[rank])};
    if (scores[ids[rank]] > 0)
      return Error{Code::kCorrupt,
                   Cat(where, ": expert ", ids[rank], ": expected once, found twice")};
    scores[ids[rank]] = static_cast<double>(expert_count - rank);
  }
  return scores;
}

std::string RanksWarning(const std::string& where) {
  return Cat(where,
             ": ranks and no counts: the scores only say the order, and shares of them mean "
             "nothing");
}

bool JsonHeadHas(std::string_view head, std::string_view text) {
  const size_t start = head.find_first_not_of(" \t\r\n");
  return start != head.npos && head[start] == '{' && head.find(text) != head.npos;
}

}  // namespace moepack
