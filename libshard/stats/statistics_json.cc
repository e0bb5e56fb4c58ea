// The JSON form, written and read one session at a time.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "libshard/base/text/json_stream.h"
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

Result<std::vector<uint64_t>> PairsFromJson(const std::string& where, const Json& json,
                                            const MoeLayerShape& layer) {
  const JsonFields fields(json, Cat(where, ": co_selection: layer ", layer.layer));
  SHARD_CHECK(CheckLayer(fields, layer));
  SHARD_TRY(const Json* pairs, Numbers(fields, "pairs", PairCount(layer.expert_count)));
  std::vector<uint64_t> counts;
  for (const Json& value : *pairs) {
    if (!value.is_number_unsigned()) return fields.Wrong("pairs", "counts");
    counts.push_back(value.get<uint64_t>());
  }
  return counts;
}

Json SessionToJson(const ModelIdentity& model, const SessionTally& session) {
  Json json = {{"name", session.name},
               {"bucket", session.bucket},
               {"executor", session.executor},
               {"precision", session.precision}};
  for (size_t i = 0; i < session.phases.size(); ++i)
    json[kPhaseNames[i]] = PhaseToJson(model, session.phases[i]);
  if (!session.token_counts.empty()) json["token_counts"] = TokenCountsToJson(session.token_counts);
  if (!session.tokens_digest.empty()) json["tokens_digest"] = session.tokens_digest;
  return json;
}

constexpr size_t kMemberIndent = 2, kElementIndent = 4;

// A member of the document, up to its value.
std::string StartMember(const char* key) {
  return Cat(std::string(kMemberIndent, ' '), Quoted(key), ": ");
}

std::string ListElement(bool first, const Json& value) {
  return Cat(first ? "\n" : ",\n", std::string(kElementIndent, ' '),
             WriteJsonValue(value, kElementIndent));
}

std::string EndList(bool empty) {
  return empty ? "]" : Cat("\n", std::string(kMemberIndent, ' '), "]");
}

std::string BeforeSessions(const ModelIdentity& model) {
  return Cat("{\n", StartMember("format"), Quoted(kStatisticsFormat), ",\n", StartMember("version"),
             kStatisticsVersion, ",\n", StartMember("model"),
             WriteJsonValue(ModelToJson(model), kMemberIndent), ",\n", StartMember("sessions"),
             "[");
}

std::string AfterSessions(const Statistics& statistics) {
  std::string text =
      Cat(EndList(statistics.sessions.empty()), ",\n", StartMember("co_selection"), "[");
  for (size_t i = 0; i < statistics.co_selection.size(); ++i) {
    const Json pairs = {{"layer", statistics.model.layers[i].layer},
                        {"pairs", statistics.co_selection[i]}};
    text += ListElement(i == 0, pairs);
  }
  return Cat(text, EndList(statistics.co_selection.empty()), "\n}\n");
}

constexpr const char *kSessions = "sessions", *kPairs = "co_selection";
constexpr const char* kMembers[] = {"format", "version", "model", kSessions, kPairs};
// A layer is an object of three numbers; twice as much is no model.
constexpr uint64_t kMaxModelValues = 8 * uint64_t{kMaxStatisticsLayers};

// The most values of a session or of the pairs of a layer: columns, token counts, and the rest.
uint64_t MostValues(const ModelIdentity& model) {
  constexpr uint64_t kColumns = 8, kRest = 1u << 10;
  uint64_t values = kRest + 2 * uint64_t{kMaxStatisticsTokenId};
  for (const MoeLayerShape& shape : model.layers)
    values += 2 * kColumns * (1 + uint64_t{shape.expert_count});
  return values;
}

// Hands over the parts of a document while it is read. A list that comes before what its elements
// are checked with is skipped; another run over the document reads it.
class DocumentParts final : public JsonEvents {
 public:
  DocumentParts(const std::string& where, StatisticsParts& parts) : where_(where), parts_(parts) {}

  // After a run; whether another one is needed.
  Result<bool> Finish() {
    if (!checks_) SHARD_CHECK(TakeModel());
    const JsonFields fields(root_, where_);
    for (const char* list : {kSessions, kPairs}) SHARD_CHECK(fields.Array(list));
    return std::exchange(skipped_, false);
  }

  Status StartObject() override { return Open(false); }
  Status StartArray() override { return Open(true); }
  Status EndObject() override { return Close(false); }
  Status EndArray() override { return Close(true); }
  Status Key(std::string_view key) override {
    if (depth_ > 1) return wanted_ ? value_.Key(key) : Ok();
    member_ = key;
    wanted_ = !root_.contains(member_) &&
              std::find(std::begin(kMembers), std::end(kMembers), key) != std::end(kMembers);
    return Ok();
  }
  Status String(std::string_view text) override { return Scalar(Json(text)); }
  Status Unsigned(uint64_t number) override { return Scalar(Json(number)); }
  Status Negative(int64_t number) override { return Scalar(Json(number)); }
  Status Float(double number) override { return Scalar(Json(number)); }
  Status Bool(bool value) override { return Scalar(Json(value)); }
  Status Null() override { return Scalar(Json(nullptr)); }

 private:
  Status Open(bool array) {
    if (depth_ == 0 && array) return NoObject("an array");
    const bool list = depth_ == 1 && array && (member_ == kSessions || member_ == kPairs);
    ++depth_;
    if (list) return OpenList();
    if (depth_ == 1 || !wanted_) return Ok();
    SHARD_CHECK(Count());
    return array ? value_.StartArray() : value_.StartObject();
  }
  Status Close(bool array) {
    --depth_;
    if (depth_ < base_) return base_ == 2 ? CloseList() : Ok();
    if (!wanted_) return Ok();
    SHARD_CHECK(array ? value_.EndArray() : value_.EndObject());
    return depth_ == base_ ? Done() : Ok();
  }
  Status Scalar(Json value) {
    if (depth_ == 0) return NoObject(DescribeJson(value));
    if (!wanted_) return Ok();
    SHARD_CHECK(Count());
    SHARD_CHECK(value_.Add(std::move(value)));
    return depth_ == base_ ? Done() : Ok();
  }

  Status OpenList() {
    base_ = 2;
    root_[member_] = Json::array();
    const bool sessions = member_ == kSessions;
    if (sessions && !checks_ && root_.contains("format") && root_.contains("version") &&
        root_.contains("model"))
      SHARD_CHECK(TakeModel());
    const bool ready = checks_ && (sessions || sessions_read_);
    const bool read = sessions ? sessions_read_ : pairs_read_;
    wanted_ = ready && !read;
    skipped_ = skipped_ || (!ready && !read);
    return Ok();
  }
  Status CloseList() {
    base_ = 1;
    if (!wanted_) return Ok();
    (member_ == kSessions ? sessions_read_ : pairs_read_) = true;
    if (member_ == kSessions || pairs_ == model_.layers.size()) return Ok();
    return Error{Code::kCorrupt,
                 Cat(where_, ": co_selection: expected the ", Plural(model_.layers.size(), "layer"),
                     " of the model, found ", pairs_)};
  }
  // A member of the document or an element of a list is there as a whole.
  Status Done() {
    const Json value = value_.Take();
    values_ = 0;
    if (base_ == 1) {
      root_[member_] = value;
      return Ok();
    }
    if (member_ == kSessions) {
      SHARD_TRY(SessionTally session, SessionFromJson(where_, value, model_));
      SHARD_CHECK(checks_->Check(session));
      return parts_.Session(std::move(session));
    }
    const size_t index = pairs_++;
    if (index >= model_.layers.size()) return Ok();
    SHARD_TRY(std::vector<uint64_t> counts, PairsFromJson(where_, value, model_.layers[index]));
    SHARD_CHECK(checks_->CheckPairs(index, counts));
    return parts_.Pairs(std::move(counts));
  }

  Status TakeModel() {
    const JsonFields fields(root_, where_);
    SHARD_TRY(const std::string format, fields.String("format"));
    if (format != kStatisticsFormat) return fields.Wrong("format", "\"moepack-statistics\"");
    SHARD_TRY(const uint64_t version, fields.Unsigned("version"));
    SHARD_CHECK(CheckStatisticsVersion(where_, version));
    SHARD_TRY(const Json* model, fields.Object("model"));
    SHARD_TRY(model_, ModelFromJson(where_, *model));
    most_values_ = MostValues(model_);
    checks_.emplace(where_, model_);
    return parts_.Model(model_);
  }

  Status Count() {
    if (++values_ <= most_values_) return Ok();
    return Error{Code::kCorrupt, Cat(where_, ": ", member_, ": expected at most ", most_values_,
                                     " values together, found more")};
  }
  Error NoObject(const std::string& found) const {
    return {Code::kCorrupt, Cat(where_, ": expected an object, found ", found)};
  }

  const std::string& where_;
  StatisticsParts& parts_;
  size_t depth_ = 0;  // objects and arrays that are open
  size_t base_ = 1;   // of which the document, and perhaps a list
  std::string member_;
  Json root_ = Json::object();  // the members that were read; lists without their elements
  bool wanted_ = false;         // the member, or the elements of the list
  JsonBuilder value_;
  uint64_t values_ = 0, most_values_ = kMaxModelValues;  // of one part
  ModelIdentity model_;
  std::optional<SessionChecks> checks_;  // once there is a model
  bool sessions_read_ = false, pairs_read_ = false, skipped_ = false;
  size_t pairs_ = 0;  // layers
};

}  // namespace

std::string StatisticsPiece(const Statistics& statistics, size_t index) {
  const size_t sessions = statistics.sessions.size();
  if (index == 0) return BeforeSessions(statistics.model);
  if (index > sessions) return AfterSessions(statistics);
  return ListElement(index == 1, SessionToJson(statistics.model, statistics.sessions[index - 1]));
}

Status StreamStatisticsText(const std::string& where, const std::function<NextPiece()>& open,
                            StatisticsParts& parts) {
  DocumentParts document(where, parts);
  for (bool again = true; again;) {
    const NextPiece next = open();
    SHARD_CHECK(StreamJson(where, next, document));
    SHARD_TRY(again, document.Finish());
  }
  return Ok();
}

}  // namespace moepack
