#include "runtime-shim/experiment/document.h"

#include <utility>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

struct NamedFigure {
  const char* name;
  Figure figure;
};
constexpr NamedFigure kFigures[] = {{"kld", &NodeFigures::kld},
                                    {"loss", &NodeFigures::loss},
                                    {"top1", &NodeFigures::top1},
                                    {"capture", &NodeFigures::capture}};

Json EstimateToJson(const Estimate& estimate, uint32_t looks, uint64_t sessions) {
  Json out = {{"mean", estimate.mean}, {"error", estimate.error}, {"interval", nullptr}};
  const double half = IntervalFactor(looks, sessions) * estimate.error;
  if (sessions > 1) out["interval"] = {estimate.mean - half, estimate.mean + half};
  return out;
}

Json SessionToJson(const SessionFigures& session) {
  Json nodes = Json::array();
  for (const NodeFigures& node : session.nodes) {
    Json one = Json::object();
    for (const auto& [name, figure] : kFigures) one[name] = node.*figure;
    nodes.push_back(std::move(one));
  }
  return {{"session", session.name},
          {"bucket", session.bucket},
          {"tokens", session.tokens},
          {"race", session.raced},
          {"nodes", std::move(nodes)}};
}

Json RowToJson(const ExperimentRow& row, std::span<const ExperimentRow> rows, uint32_t looks) {
  Json out = {{"row", row.label()},
              {"strategy", row.strategy.empty() ? Json(nullptr) : Json(row.strategy)},
              {"recipe", row.recipe.empty() ? Json(nullptr) : Json(row.recipe)},
              {"refitted", row.refitted},
              {"calibrated", row.calibrated},
              {"eligible", row.eligible ? Json(*row.eligible) : Json(nullptr)},
              {"node_bytes", row.node_bytes ? Json(*row.node_bytes) : Json(nullptr)}};
  const uint64_t sessions = row.sessions.size();
  Json figures = Json::object();
  for (const Choice choice : kChoices) {
    if (sessions == 0) break;
    Json& one = figures[std::string(NameOf(choice))] = Json::object();
    for (const auto& [name, figure] : kFigures)
      one[name] = EstimateToJson(EstimateRow(row, choice, figure), looks, sessions);
  }
  out["figures"] = std::move(figures);
  out["difference"] = nullptr;
  const ExperimentRow* base = BaselineOf(row, rows);
  if (base != nullptr && sessions > 0 && base->sessions.size() == sessions) {
    Json& difference = out["difference"] = {{"from", base->label()}};
    for (const auto& [name, figure] : kFigures) {
      difference[name] =
          EstimateToJson(EstimateDifference(row, *base, Choice::kCapture, figure), looks, sessions);
    }
  }
  out["sessions"] = Json::array();
  for (const SessionFigures& session : row.sessions)
    out["sessions"].push_back(SessionToJson(session));
  return out;
}

Result<SessionFigures> SessionFromJson(const std::string& where, const Json& value) {
  if (!value.is_object())
    return Error{Code::kCorrupt, Cat(where, ": expected an object, found ", DescribeJson(value))};
  const JsonFields fields(value, where);
  SessionFigures session;
  SHARD_TRY(session.name, fields.String("session"));
  SHARD_TRY(session.bucket, fields.String("bucket"));
  SHARD_TRY(session.tokens, fields.Unsigned("tokens"));
  SHARD_TRY(const uint64_t raced, fields.Unsigned("race"));
  SHARD_TRY(const Json* nodes, fields.Array("nodes"));
  for (size_t i = 0; i < nodes->size(); ++i) {
    const std::string at = Cat(where, ": nodes[", i, "]");
    if (!(*nodes)[i].is_object())
      return Error{Code::kCorrupt,
                   Cat(at, ": expected an object, found ", DescribeJson((*nodes)[i]))};
    const JsonFields figures((*nodes)[i], at);
    NodeFigures& node = session.nodes.emplace_back();
    for (const auto& [name, figure] : kFigures) {
      SHARD_TRY(node.*figure, figures.Number(name));
    }
  }
  if (raced >= session.nodes.size()) return fields.Wrong("race", "the number of a node");
  session.raced = static_cast<uint32_t>(raced);
  return session;
}

Result<std::vector<SessionFigures>> RowFromJson(const std::string& where, const Json& value) {
  if (!value.is_object())
    return Error{Code::kCorrupt, Cat(where, ": expected an object, found ", DescribeJson(value))};
  SHARD_TRY(const Json* sessions, JsonFields(value, where).Array("sessions"));
  std::vector<SessionFigures> row;
  for (size_t i = 0; i < sessions->size(); ++i) {
    SHARD_TRY(SessionFigures session,
              SessionFromJson(Cat(where, ": sessions[", i, "]"), (*sessions)[i]));
    row.push_back(std::move(session));
  }
  return row;
}

Error NotExpected(const std::string& where, const char* thing, const std::string& expected,
                  const std::string& found) {
  return {Code::kCorrupt, Cat(where, ": ", thing, ": expected ", expected, ", found ", found)};
}

}  // namespace

Json ExperimentToJson(const Json& setup, const ExperimentRule& rule, const ExperimentState& state) {
  const auto looks = static_cast<uint32_t>(rule.looks.size());
  Json document = {{"format", kExperimentFormat}, {"version", kExperimentVersion}};
  document["setup"] = setup;
  document["looks"] = {
      {"after_sessions", rule.looks}, {"made", state.looks_made}, {"stopped_early", state.stopped}};
  document["complete"] = state.complete;
  document["rows"] = Json::array();
  for (const ExperimentRow& row : state.rows)
    document["rows"].push_back(RowToJson(row, state.rows, looks));
  return document;
}

Result<FinishedSessions> ReadExperiment(const std::string& path) {
  SHARD_TRY(const Json document, ReadJsonFile(path));
  if (!document.is_object() || TextMember(document, "format") != kExperimentFormat)
    return Error{Code::kCorrupt,
                 Cat(path, ": format: expected \"", kExperimentFormat, "\", found another file"),
                 "name another output"};
  const JsonFields fields(document, path);
  SHARD_TRY(const uint64_t version, fields.Unsigned("version"));
  if (version != kExperimentVersion)
    return Error{Code::kUnsupported,
                 Cat(path, ": version: expected ", kExperimentVersion, ", found ", version)};
  FinishedSessions finished;
  SHARD_TRY(const Json* setup, fields.Object("setup"));
  finished.setup = *setup;
  SHARD_TRY(const Json* rows, fields.Array("rows"));
  for (size_t i = 0; i < rows->size(); ++i) {
    SHARD_TRY(std::vector<SessionFigures> row,
              RowFromJson(Cat(path, ": rows[", i, "]"), (*rows)[i]));
    finished.rows.push_back(std::move(row));
  }
  return finished;
}

Status Resume(const std::string& path, FinishedSessions finished,
              std::span<const TokenSession> sessions, std::span<const size_t> nodes,
              ExperimentState& state) {
  if (finished.rows.size() != state.rows.size())
    return NotExpected(path, "rows", std::to_string(state.rows.size()),
                       std::to_string(finished.rows.size()));
  for (size_t row = 0; row < finished.rows.size(); ++row) {
    const std::vector<SessionFigures>& done = finished.rows[row];
    const std::string where = Cat(path, ": rows[", row, "]");
    if (done.size() > sessions.size())
      return NotExpected(where, "sessions", Cat("at most ", sessions.size()),
                         std::to_string(done.size()));
    for (size_t i = 0; i < done.size(); ++i) {
      const std::string at = Cat(where, ": sessions[", i, "]");
      if (done[i].name != sessions[i].name)
        return NotExpected(at, "session", Quoted(sessions[i].name), Quoted(done[i].name));
      if (done[i].nodes.size() != nodes[row])
        return NotExpected(at, "nodes", std::to_string(nodes[row]),
                           std::to_string(done[i].nodes.size()));
    }
  }
  for (size_t row = 0; row < finished.rows.size(); ++row)
    state.rows[row].sessions = std::move(finished.rows[row]);
  return Ok();
}

}  // namespace moepack::runtime
