#include "libshard/import/scores_file.h"

#include <cfloat>
#include <cmath>
#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/import/import.h"
#include "libshard/import/score_table.h"

namespace moepack {
namespace {

Json SessionJson(const ExpertScores& scores, const SessionScores& session) {
  Json tables = Json::array();
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    Json table = Json::array();
    const size_t offset = scores.Offset(i);
    for (uint32_t e = 0; e < scores.layers[i].expert_count; ++e)
      table.push_back(double{session.scores[offset + e]});
    tables.push_back(std::move(table));
  }
  Json json = {{"name", session.name}, {"bucket", session.bucket}, {"tokens", session.tokens}};
  if (!session.token_counts.empty()) {
    Json ids = Json::array(), counts = Json::array();
    for (const auto& [id, count] : session.token_counts) {
      ids.push_back(id);
      counts.push_back(count);
    }
    json["token_counts"] = {{"ids", std::move(ids)}, {"counts", std::move(counts)}};
  }
  json["scores"] = std::move(tables);
  return json;
}

Result<uint32_t> SmallNumber(const JsonFields& fields, const char* key) {
  SHARD_TRY(const uint64_t value, fields.Unsigned(key));
  if (value > UINT32_MAX) return fields.Wrong(key, "a number below 2^32");
  return static_cast<uint32_t>(value);
}

Result<std::vector<MoeLayerShape>> LayersFrom(const std::string& where, const Json& list) {
  std::vector<MoeLayerShape> layers;
  for (const Json& json : list) {
    if (!json.is_object())
      return Error{Code::kCorrupt,
                   Cat(where, ": layers: expected objects, found ", DescribeJson(json))};
    const JsonFields fields(json, where + ": layers");
    MoeLayerShape layer;
    SHARD_TRY(layer.layer, SmallNumber(fields, "layer"));
    SHARD_TRY(layer.expert_count, SmallNumber(fields, "experts"));
    SHARD_TRY(layer.top_k, SmallNumber(fields, "top_k"));
    if (layer.expert_count == 0 || layer.expert_count > kMaxStatisticsExperts)
      return fields.Wrong("experts", "1 to 4096");
    layers.push_back(layer);
  }
  return layers;
}

Result<std::vector<uint64_t>> Counts(const JsonFields& fields, const char* key, uint64_t most) {
  SHARD_TRY(const Json* list, fields.Array(key));
  std::vector<uint64_t> counts;
  for (const Json& value : *list) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > most)
      return fields.Wrong(key, "counts");
    counts.push_back(value.get<uint64_t>());
  }
  return counts;
}

Status TokenCountsFrom(const std::string& place, const Json& json, SessionScores& session) {
  const JsonFields fields(json, place + ": token_counts");
  SHARD_TRY(const std::vector<uint64_t> ids, Counts(fields, "ids", UINT32_MAX));
  SHARD_TRY(const std::vector<uint64_t> counts, Counts(fields, "counts", UINT32_MAX));
  bool ascending = ids.size() == counts.size();
  for (size_t i = 0; ascending && i < ids.size(); ++i) {
    ascending = i == 0 || ids[i - 1] < ids[i];
    session.token_counts.emplace_back(static_cast<uint32_t>(ids[i]),
                                      static_cast<uint32_t>(counts[i]));
  }
  return ascending ? Ok() : fields.Wrong("ids", "ascending ids, one per count");
}

Result<SessionScores> SessionFrom(const std::string& where, const Json& json,
                                  const ExpertScores& shape) {
  if (!json.is_object())
    return Error{Code::kCorrupt,
                 Cat(where, ": sessions: expected objects, found ", DescribeJson(json))};
  SessionScores session;
  SHARD_TRY(session.name, JsonFields(json, where + ": sessions").String("name"));
  const std::string place = Cat(where, ": session ", Quoted(session.name));
  const JsonFields fields(json, place);
  SHARD_TRY(session.bucket, fields.String("bucket"));
  SHARD_TRY(session.tokens, fields.Unsigned("tokens"));
  if (session.tokens > kMaxStatisticsTokens) return fields.Wrong("tokens", "at most 2^53");
  if (fields.Has("token_counts")) {
    SHARD_TRY(const Json* tokens, fields.Object("token_counts"));
    SHARD_CHECK(TokenCountsFrom(place, *tokens, session));
  }
  SHARD_TRY(const Json* tables, fields.Array("scores"));
  if (tables->size() != shape.layers.size()) return fields.Wrong("scores", "one list per layer");
  for (size_t i = 0; i < tables->size(); ++i) {
    const std::string layer = Cat(place, ": layer ", shape.layers[i].layer);
    SHARD_TRY(const std::vector<double> row, JsonNumbers(layer, (*tables)[i]));
    if (row.size() != shape.layers[i].expert_count)
      return Error{Code::kCorrupt, Cat(layer, ": scores: expected ", shape.layers[i].expert_count,
                                       ", found ", row.size())};
    // Numbers too large for a float become infinite, and are refused with their position.
    for (const double score : row)
      session.scores.push_back(score > FLT_MAX ? HUGE_VALF : static_cast<float>(score));
  }
  return session;
}

Status PairsFrom(const JsonFields& fields, ExpertScores& scores) {
  if (!fields.Has("co_selection")) return Ok();
  SHARD_TRY(const Json* list, fields.Array("co_selection"));
  if (list->size() != scores.layers.size())
    return fields.Wrong("co_selection", "one list per layer");
  for (size_t i = 0; i < list->size(); ++i) {
    const Json object = {{"pairs", (*list)[i]}};
    const JsonFields layer(object,
                           Cat(fields.where(), ": co_selection: layer ", scores.layers[i].layer));
    SHARD_TRY(std::vector<uint64_t> pairs, Counts(layer, "pairs", kMaxStatisticsTokens));
    if (pairs.size() != PairCount(scores.layers[i].expert_count))
      return layer.Wrong("pairs", "one count per pair of experts");
    scores.co_selection.push_back(std::move(pairs));
  }
  return Ok();
}

// The digest as profile writes it, or nothing.
Result<std::string> RouterDigestFrom(const JsonFields& fields) {
  SHARD_TRY(std::string digest, fields.StringOr("router_digest", ""));
  if (!digest.empty() && !IsXxh3Hex(digest))
    return fields.Wrong("router_digest", "32 hexadecimal digits or no text");
  return digest;
}

Result<ScoreBasis> BasisFrom(const JsonFields& fields) {
  SHARD_TRY(const std::string name, fields.String("basis"));
  for (size_t i = 0; i < kScoreBasisNames.size(); ++i) {
    if (name == kScoreBasisNames[i]) return static_cast<ScoreBasis>(i);
  }
  return fields.Wrong("basis", "\"count\", \"gate\" or \"reap\"");
}

Status WarningsFrom(const JsonFields& fields, ExpertScores& scores) {
  if (!fields.Has("warnings")) return Ok();
  SHARD_TRY(const Json* list, fields.Array("warnings"));
  for (const Json& warning : *list) {
    if (!warning.is_string()) return fields.Wrong("warnings", "sentences");
    scores.warnings.push_back(Shown(warning.get<std::string>()));
  }
  return Ok();
}

Result<ExpertScores> ReadScoresFile(const ByteSource& file, const ImportOptions& options) {
  SHARD_TRY(const Json document, ReadImportJson(file));
  SHARD_TRY(ExpertScores scores, ScoresFromJson(file.name(), document));
  SHARD_CHECK(CheckBasis(file.name(), scores.basis, options));
  for (std::string& warning : scores.warnings) warning = Cat(file.name(), ": ", warning);
  return scores;
}

bool LooksLikeScores(std::string_view head) { return JsonHeadHas(head, "\"moepack-scores\""); }

}  // namespace

Json ScoresToJson(const ExpertScores& scores) {
  Json layers = Json::array(), sessions = Json::array();
  LayerCounts counts;
  for (const MoeLayerShape& layer : scores.layers) {
    layers.push_back(
        {{"layer", layer.layer}, {"experts", layer.expert_count}, {"top_k", layer.top_k}});
    counts[layer.layer] = layer.expert_count;
  }
  for (const SessionScores& session : scores.sessions)
    sessions.push_back(SessionJson(scores, session));
  Json json = {{"format", kScoresFormat},
               {"version", kScoresVersion},
               {"source", {{"format", scores.format}, {"digest", scores.digest}}},
               {"router_digest", scores.router_digest},
               {"basis", kScoreBasisNames[static_cast<size_t>(scores.basis)]},
               {"layer_agnostic", scores.layer_agnostic},
               {"layers", std::move(layers)},
               {"super_experts", LayerExpertsToJson(scores.super_experts, counts)},
               {"warnings", scores.warnings},
               {"sessions", std::move(sessions)}};
  if (!scores.co_selection.empty()) json["co_selection"] = scores.co_selection;
  return json;
}

Result<ExpertScores> ScoresFromJson(const std::string& where, const Json& document) {
  const JsonFields fields(document, where);
  SHARD_TRY(const std::string format, fields.String("format"));
  if (format != kScoresFormat) return fields.Wrong("format", "\"moepack-scores\"");
  SHARD_TRY(const uint64_t version, fields.Unsigned("version"));
  if (version != kScoresVersion)
    return Error{Code::kUnsupported,
                 Cat(where, ": version: expected ", kScoresVersion, ", found ", version)};
  ExpertScores scores;
  SHARD_TRY(scores.router_digest, RouterDigestFrom(fields));
  SHARD_TRY(scores.basis, BasisFrom(fields));
  SHARD_TRY(scores.layer_agnostic, fields.BoolOr("layer_agnostic", false));
  SHARD_TRY(const Json* layers, fields.Array("layers"));
  SHARD_TRY(scores.layers, LayersFrom(where, *layers));
  LayerCounts counts;
  for (const MoeLayerShape& layer : scores.layers) counts[layer.layer] = layer.expert_count;
  if (fields.Has("super_experts")) {
    SHARD_TRY(const Json* super_experts, fields.Object("super_experts"));
    SHARD_TRY(scores.super_experts,
              LayerExpertsFromJson(where + ": super_experts", *super_experts, counts));
  }
  SHARD_CHECK(WarningsFrom(fields, scores));
  SHARD_TRY(const Json* sessions, fields.Array("sessions"));
  for (const Json& json : *sessions) {
    SHARD_TRY(SessionScores session, SessionFrom(where, json, scores));
    scores.sessions.push_back(std::move(session));
  }
  SHARD_CHECK(PairsFrom(fields, scores));
  return scores;
}

constinit const Importer kScoresImporter = {
    kScoresFormat, "scores of any of these formats as `moepack statistics` writes them (JSON)",
    LooksLikeScores, ReadScoresFile};

}  // namespace moepack
