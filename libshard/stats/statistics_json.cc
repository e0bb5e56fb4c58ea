#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/stats/statistics_file.h"

namespace moepack {
namespace {

// Returns a column of a layer's table: one array per member of ExpertTally.
template <class T>
Json Column(const LayerTally& layer, T ExpertTally::*member) {
  Json column = Json::array();
  for (const ExpertTally& expert : layer) column.push_back(expert.*member);
  return column;
}

Json PhaseToJson(const ModelIdentity& model, const PhaseTally& phase) {
  Json layers = Json::array();
  for (size_t i = 0; i < phase.layers.size(); ++i) {
    const LayerTally& layer = phase.layers[i];
    layers.push_back({{"layer", model.layers[i].layer},
                      {"count", Column(layer, &ExpertTally::count)},
                      {"gate_mass", Column(layer, &ExpertTally::gate_mass)},
                      {"odd_gate_mass", Column(layer, &ExpertTally::odd_gate_mass)},
                      {"weighted_norm", Column(layer, &ExpertTally::weighted_norm)},
                      {"peak", Column(layer, &ExpertTally::peak)}});
  }
  return {{"tokens", phase.tokens}, {"sinks", phase.sinks}, {"layers", std::move(layers)}};
}

Json ModelToJson(const ModelIdentity& model) {
  Json layers = Json::array();
  for (const MoeLayerShape& shape : model.layers) {
    layers.push_back(
        {{"layer", shape.layer}, {"experts", shape.expert_count}, {"top_k", shape.top_k}});
  }
  return {{"name", model.name},
          {"architecture", model.architecture},
          {"versions",
           {{"model", model.model_version},
            {"shard", model.shard_version},
            {"replica", model.replica_version}}},
          {"router_digest", model.router_digest},
          {"layers", std::move(layers)}};
}

Result<uint32_t> Small(const JsonFields& fields, const char* key) {
  SHARD_TRY(const uint64_t value, fields.Unsigned(key));
  if (value > UINT32_MAX) return fields.Wrong(key, "a number below 2^32");
  return static_cast<uint32_t>(value);
}

Result<ModelIdentity> ModelFromJson(const std::string& where, const Json& json) {
  const JsonFields fields(json, where + ": model");
  ModelIdentity model;
  SHARD_TRY(model.name, fields.String("name"));
  SHARD_TRY(model.architecture, fields.String("architecture"));
  SHARD_TRY(const Json* versions, fields.Object("versions"));
  const JsonFields version(*versions, where + ": model: versions");
  SHARD_TRY(model.model_version, version.String("model"));
  SHARD_TRY(model.shard_version, version.String("shard"));
  SHARD_TRY(model.replica_version, version.String("replica"));
  SHARD_TRY(model.router_digest, fields.String("router_digest"));
  SHARD_TRY(const Json* layers, fields.Array("layers"));
  for (const Json& layer : *layers) {
    const JsonFields shape(layer, where + ": model: layers");
    MoeLayerShape out;
    SHARD_TRY(out.layer, Small(shape, "layer"));
    SHARD_TRY(out.expert_count, Small(shape, "experts"));
    SHARD_TRY(out.top_k, Small(shape, "top_k"));
    model.layers.push_back(out);
  }
  SHARD_CHECK(CheckModelIdentity(where, model));
  return model;
}

// Returns an array of exactly `size` numbers.
Result<const Json*> Numbers(const JsonFields& fields, const char* key, uint64_t size) {
  SHARD_TRY(const Json* array, fields.Array(key));
  if (array->size() != size)
    return Error{Code::kCorrupt, Cat(fields.where(), ": ", key, ": expected ", size,
                                     " numbers, found ", array->size())};
  for (const Json& value : *array) {
    if (!value.is_number()) return fields.Wrong(key, "numbers alone");
  }
  return array;
}

template <class T>
Status ReadColumn(const JsonFields& fields, const char* key, T ExpertTally::*member,
                  LayerTally& layer) {
  SHARD_TRY(const Json* numbers, Numbers(fields, key, layer.size()));
  for (size_t i = 0; i < layer.size(); ++i) {
    const Json& value = (*numbers)[i];
    if (std::is_integral_v<T> && !value.is_number_unsigned()) return fields.Wrong(key, "counts");
    layer[i].*member =
        static_cast<T>(value.get<std::conditional_t<std::is_integral_v<T>, T, double>>());
  }
  return Ok();
}

// Checks the layer that a table names: tables are in the order of the model's layers.
Status CheckLayer(const JsonFields& fields, const MoeLayerShape& shape) {
  SHARD_TRY(const uint64_t number, fields.Unsigned("layer"));
  if (number == shape.layer) return Ok();
  return fields.Wrong("layer", std::to_string(shape.layer).c_str());
}

Result<LayerTally> LayerFromJson(const std::string& where, const Json& json,
                                 const MoeLayerShape& shape) {
  const JsonFields fields(json, where);
  SHARD_CHECK(CheckLayer(fields, shape));
  LayerTally layer(shape.expert_count);
  SHARD_CHECK(ReadColumn(fields, "count", &ExpertTally::count, layer));
  SHARD_CHECK(ReadColumn(fields, "gate_mass", &ExpertTally::gate_mass, layer));
  SHARD_CHECK(ReadColumn(fields, "odd_gate_mass", &ExpertTally::odd_gate_mass, layer));
  SHARD_CHECK(ReadColumn(fields, "weighted_norm", &ExpertTally::weighted_norm, layer));
  SHARD_CHECK(ReadColumn(fields, "peak", &ExpertTally::peak, layer));
  return layer;
}

Result<PhaseTally> PhaseFromJson(const std::string& where, const Json& json,
                                 const ModelIdentity& model) {
  const JsonFields fields(json, where);
  PhaseTally phase;
  SHARD_TRY(phase.tokens, fields.Unsigned("tokens"));
  SHARD_TRY(phase.sinks, fields.Unsigned("sinks"));
  SHARD_TRY(const Json* layers, fields.Array("layers"));
  if (layers->size() > model.layers.size()) return fields.Wrong("layers", "those of the model");
  for (size_t i = 0; i < layers->size(); ++i) {
    const std::string layer_where = Cat(where, ": layer ", model.layers[i].layer);
    SHARD_TRY(LayerTally layer, LayerFromJson(layer_where, (*layers)[i], model.layers[i]));
    phase.layers.push_back(std::move(layer));
  }
  return phase;
}

Json TokenCountsToJson(const TokenCounts& token_counts) {
  Json ids = Json::array(), counts = Json::array();
  for (const auto& [id, count] : token_counts) {
    ids.push_back(id);
    counts.push_back(count);
  }
  return {{"ids", std::move(ids)}, {"counts", std::move(counts)}};
}

Result<TokenCounts> TokenCountsFromJson(const std::string& where, const Json& json) {
  const JsonFields fields(json, where);
  SHARD_TRY(const Json* ids, fields.Array("ids"));
  SHARD_TRY(const Json* counts, Numbers(fields, "counts", ids->size()));
  TokenCounts token_counts;
  const auto small = [](const Json& value) {
    return value.is_number_unsigned() && value.get<uint64_t>() <= UINT32_MAX;
  };
  for (size_t i = 0; i < ids->size(); ++i) {
    if (!small((*ids)[i])) return fields.Wrong("ids", "numbers below 2^32");
    if (!small((*counts)[i])) return fields.Wrong("counts", "numbers below 2^32");
    token_counts.emplace_back((*ids)[i].get<uint32_t>(), (*counts)[i].get<uint32_t>());
  }
  return token_counts;
}

Result<SessionTally> SessionFromJson(const std::string& where, const Json& json,
                                     const ModelIdentity& model) {
  const JsonFields fields(json, where + ": sessions");
  SessionTally session;
  SHARD_TRY(session.name, fields.String("name"));
  SHARD_TRY(session.bucket, fields.String("bucket"));
  SHARD_TRY(session.executor, fields.String("executor"));
  SHARD_TRY(session.precision, fields.String("precision"));
  for (size_t i = 0; i < session.phases.size(); ++i) {
    SHARD_TRY(const Json* phase, fields.Object(kPhaseNames[i]));
    const std::string phase_where =
        Cat(where, ": session ", Quoted(session.name), ": ", kPhaseNames[i]);
    SHARD_TRY(session.phases[i], PhaseFromJson(phase_where, *phase, model));
  }
  SHARD_TRY(session.tokens_digest, fields.StringOr("tokens_digest", ""));
  if (!fields.Has("token_counts")) return session;
  SHARD_TRY(const Json* token_counts, fields.Object("token_counts"));
  SHARD_TRY(session.token_counts,
            TokenCountsFromJson(Cat(where, ": session ", Quoted(session.name), ": token_counts"),
                                *token_counts));
  return session;
}

Status PairsFromJson(const std::string& where, const Json& list, Statistics& statistics) {
  const auto& layers = statistics.model.layers;
  if (list.size() != layers.size())
    return Error{Code::kCorrupt,
                 Cat(where, ": co_selection: expected the ", Plural(layers.size(), "layer"),
                     " of the model, found ", list.size())};
  for (size_t i = 0; i < layers.size(); ++i) {
    const JsonFields fields(list[i], Cat(where, ": co_selection: layer ", layers[i].layer));
    SHARD_CHECK(CheckLayer(fields, layers[i]));
    SHARD_TRY(const Json* pairs, Numbers(fields, "pairs", PairCount(layers[i].expert_count)));
    std::vector<uint64_t> counts;
    for (const Json& value : *pairs) {
      if (!value.is_number_unsigned()) return fields.Wrong("pairs", "counts");
      counts.push_back(value.get<uint64_t>());
    }
    statistics.co_selection.push_back(std::move(counts));
  }
  return Ok();
}

}  // namespace

Json StatisticsToJson(const Statistics& statistics) {
  Json sessions = Json::array();
  for (const SessionTally& session : statistics.sessions) {
    Json json = {{"name", session.name},
                 {"bucket", session.bucket},
                 {"executor", session.executor},
                 {"precision", session.precision}};
    for (size_t i = 0; i < session.phases.size(); ++i) {
      json[kPhaseNames[i]] = PhaseToJson(statistics.model, session.phases[i]);
    }
    if (!session.token_counts.empty())
      json["token_counts"] = TokenCountsToJson(session.token_counts);
    if (!session.tokens_digest.empty()) json["tokens_digest"] = session.tokens_digest;
    sessions.push_back(std::move(json));
  }
  Json pairs = Json::array();
  for (size_t i = 0; i < statistics.co_selection.size(); ++i) {
    pairs.push_back(
        {{"layer", statistics.model.layers[i].layer}, {"pairs", statistics.co_selection[i]}});
  }
  return {{"format", kStatisticsFormat},
          {"version", kStatisticsVersion},
          {"model", ModelToJson(statistics.model)},
          {"sessions", std::move(sessions)},
          {"co_selection", std::move(pairs)}};
}

Result<Statistics> StatisticsFromJson(const std::string& where, const Json& document) {
  if (!document.is_object())
    return Error{Code::kCorrupt,
                 Cat(where, ": expected an object, found ", DescribeJson(document))};
  const JsonFields fields(document, where);
  SHARD_TRY(const std::string format, fields.String("format"));
  if (format != kStatisticsFormat) return fields.Wrong("format", "\"moepack-statistics\"");
  SHARD_TRY(const uint64_t version, fields.Unsigned("version"));
  SHARD_CHECK(CheckStatisticsVersion(where, version));
  SHARD_TRY(const Json* model, fields.Object("model"));
  Statistics statistics;
  SHARD_TRY(statistics.model, ModelFromJson(where, *model));
  SHARD_TRY(const Json* sessions, fields.Array("sessions"));
  for (const Json& json : *sessions) {
    SHARD_TRY(SessionTally session, SessionFromJson(where, json, statistics.model));
    statistics.sessions.push_back(std::move(session));
  }
  SHARD_TRY(const Json* pairs, fields.Array("co_selection"));
  SHARD_CHECK(PairsFromJson(where, *pairs, statistics));
  SHARD_CHECK(CheckStatistics(where, statistics));
  return statistics;
}

}  // namespace moepack
