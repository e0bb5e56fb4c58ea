#include "libshard/plan/placement.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "libshard/base/text/base64.h"
#include "libshard/base/text/text.h"
#include "libshard/plan/plan_steps.h"

namespace moepack {
namespace {

// Null for a token without a row.
const int8_t* ScoresOfToken(const TokenScoreTable& table, size_t groups, uint32_t id) {
  const auto found = std::lower_bound(table.ids.begin(), table.ids.end(), id);
  if (found == table.ids.end() || *found != id) return nullptr;
  return table.scores.data() + static_cast<size_t>(found - table.ids.begin()) * groups;
}

// Sets best, second and margin from the scores.
void RankPlaces(PlacementAnswer& answer) {
  std::vector<uint32_t> order;
  for (uint32_t group = 0; group < answer.scores.size(); ++group) {
    if (answer.scores[group]) order.push_back(group);
  }
  // Stable, so the lowest group wins a tie.
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return *answer.scores[a] > *answer.scores[b]; });
  answer.best = order.empty() ? 0 : order[0];
  answer.second = order.size() < 2 ? answer.best : order[1];
  if (order.size() >= 2) answer.margin = *answer.scores[order[0]] - *answer.scores[order[1]];
}

}  // namespace

PlacementAnswer Place(const PlacementTable& table, std::span<const uint32_t> tokens) {
  const size_t groups = table.groups();
  tokens = tokens.first(std::min<size_t>(tokens.size(), table.prefix_tokens));
  // Whole steps are added up, so the order of tokens and groups does not matter.
  std::vector<int64_t> steps(groups);
  PlacementAnswer answer;
  uint64_t known = 0;
  for (const uint32_t id : tokens) {
    const int8_t* row = ScoresOfToken(table.tokens, groups, id);
    if (row == nullptr) continue;
    ++known;
    for (size_t group = 0; group < groups; ++group) steps[group] += row[group];
  }
  answer.tokens = static_cast<uint32_t>(tokens.size());
  if (!tokens.empty())
    answer.known_share = static_cast<double>(known) / static_cast<double>(tokens.size());
  answer.scores.resize(groups);
  for (size_t group = 0; group < groups; ++group) {
    // Nothing was learned about this group, and 0 would rank it above groups that are unlikely.
    if (table.sessions_by_group[group] == 0) continue;
    answer.scores[group] = static_cast<double>(steps[group]) * table.tokens.scale;
  }
  RankPlaces(answer);
  answer.sure = known > 0 && EnoughKnown(known, tokens.size()) && answer.margin >= table.margin;
  return answer;
}

// std::log may differ in the last bit between C libraries, and the table is part of a distribution
// whose digest must not.
double FixedLog(double x) {
  int exponent = 0;
  double fraction = std::frexp(x, &exponent);
  // With the fraction in [sqrt(1/2), sqrt(2)), z is small and the series short.
  constexpr double kHalfRoot = 0.70710678118654752;
  if (fraction < kHalfRoot) {
    fraction *= 2;
    --exponent;
  }
  // ln(f) = 2 artanh(z) with z = (f - 1) / (f + 1); |z| <= 0.172, so z^26 is below 1e-19.
  const double z = (fraction - 1) / (fraction + 1), square = z * z;
  double sum = 0;
  for (int power = 25; power >= 1; power -= 2) sum = sum * square + 1.0 / power;
  constexpr double kLog2 = 0.69314718055994531;
  return 2 * z * sum + exponent * kLog2;
}

// "placement" with the rule "table":
//
//   {"rule": "table", "prefix_tokens": 32, "margin": 2.0, "sessions": [7, 9, 8],
//    "trial": {"sessions": 24, "right": 19, "sure": 15, "sure_right": 14},
//    "tokens": {"count": 2, "left_out": 0, "scale": 0.03, "ids": "BQI=",
//               "scores": "..."},
//    "centroids": {"layers": 2, "values": "..."}}
//
// The texts are base64. "ids": for each row, ascending, how far its id is above the smallest
// possible one, as unsigned LEB128; "scores": [count][groups] int8; "values": [groups][experts of
// the first layers] uint8.

namespace {

constexpr uint64_t kMaxTableRows = 1u << 20;
constexpr uint64_t kMaxTrialSessions = uint64_t{1} << 53;
constexpr double kMaxScale = 1e3;  // nats: a step is a 127th of the largest score
constexpr int kIdBits = 7;         // in a byte of LEB128

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  static_assert(sizeof(T) == 1);
  return {reinterpret_cast<const char*>(values.data()), values.size()};
}

std::string EncodeIds(const std::vector<uint32_t>& ids) {
  std::string out;
  uint32_t least = 0;
  for (const uint32_t id : ids) {
    uint32_t value = id - least;
    for (; value >= 0x80; value >>= kIdBits) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
    least = id + 1;
  }
  return out;
}

// No value unless the bytes are `count` ids of at most kMaxStatisticsTokenId.
std::optional<std::vector<uint32_t>> DecodeIds(const std::string& bytes, uint64_t count) {
  std::vector<uint32_t> ids;
  uint64_t least = 0, value = 0;
  int shift = 0;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (shift > 3 * kIdBits) return std::nullopt;
    value |= uint64_t{byte & 0x7fu} << shift;
    shift += kIdBits;
    if (byte >= 0x80) continue;
    const uint64_t id = least + value;
    if (id > kMaxStatisticsTokenId) return std::nullopt;
    ids.push_back(static_cast<uint32_t>(id));
    least = id + 1;
    value = 0;
    shift = 0;
  }
  if (shift != 0 || ids.size() != count) return std::nullopt;
  return ids;
}

Result<uint64_t> NumberUpTo(const JsonFields& fields, const char* key, uint64_t least,
                            uint64_t most) {
  SHARD_TRY(const uint64_t value, fields.Unsigned(key));
  if (value >= least && value <= most) return value;
  return fields.Wrong(key, Cat("a number from ", least, " to ", most).c_str());
}

Result<double> RealUpTo(const JsonFields& fields, const char* key, double most) {
  SHARD_TRY(const double value, fields.Number(key));
  if (value >= 0 && value <= most) return value;
  return fields.Wrong(key, Cat("a number from 0 to ", most).c_str());
}

// Returns exactly `size` bytes.
Result<std::string> Base64Bytes(const JsonFields& fields, const char* key, uint64_t size) {
  SHARD_TRY(const std::string text, fields.String(key));
  std::optional<std::string> bytes = DecodeExactBase64(text);
  if (!bytes)
    return Error{Code::kCorrupt,
                 Cat(fields.where(), ": ", key, ": expected base64, found other text")};
  if (bytes->size() == size) return *std::move(bytes);
  return Error{Code::kCorrupt, Cat(fields.where(), ": ", key, ": expected ", size, " bytes, found ",
                                   bytes->size())};
}

Status ReadTrial(const JsonFields& placement, PlacementTrial& trial) {
  SHARD_TRY(const Json* value, placement.Object("trial"));
  const JsonFields fields(*value, Cat(placement.where(), ": trial"));
  SHARD_TRY(trial.sessions, NumberUpTo(fields, "sessions", 0, kMaxTrialSessions));
  SHARD_TRY(trial.right, NumberUpTo(fields, "right", 0, trial.sessions));
  SHARD_TRY(trial.sure, NumberUpTo(fields, "sure", 0, trial.sessions));
  SHARD_TRY(trial.sure_right,
            NumberUpTo(fields, "sure_right", 0, std::min(trial.right, trial.sure)));
  return Ok();
}

// One number per group.
Result<const Json*> ByGroup(const JsonFields& fields, const char* key, size_t groups) {
  SHARD_TRY(const Json* array, fields.Array(key));
  if (array->size() == groups) return array;
  return Error{Code::kCorrupt, Cat(fields.where(), ": ", key, ": expected ",
                                   Plural(groups, "group"), ", found ", array->size())};
}

Status ReadTokenScores(const JsonFields& placement, size_t groups, TokenScoreTable& table) {
  SHARD_TRY(const Json* value, placement.Object("tokens"));
  const JsonFields fields(*value, Cat(placement.where(), ": tokens"));
  SHARD_TRY(const uint64_t count, NumberUpTo(fields, "count", 0, kMaxTableRows));
  SHARD_TRY(table.left_out, NumberUpTo(fields, "left_out", 0, kMaxStatisticsTokenId));
  SHARD_TRY(table.scale, RealUpTo(fields, "scale", kMaxScale));
  if (table.scale <= 0) return fields.Wrong("scale", "a number above 0");
  SHARD_TRY(const std::string text, fields.String("ids"));
  const std::optional<std::string> bytes = DecodeExactBase64(text);
  auto ids = bytes ? DecodeIds(*bytes, count) : std::nullopt;
  if (!ids)
    return Error{Code::kCorrupt, Cat(fields.where(), ": ids: expected ", count,
                                     " ascending ids, found something else")};
  table.ids = *std::move(ids);
  SHARD_TRY(const std::string scores, Base64Bytes(fields, "scores", count * groups));
  for (const char c : scores) table.scores.push_back(static_cast<int8_t>(c));
  return Ok();
}

Status ReadCentroids(const JsonFields& placement, size_t groups, const LayerCounts& layers,
                     PlacementTable& table) {
  if (!placement.Has("centroids")) return Ok();
  SHARD_TRY(const Json* value, placement.Object("centroids"));
  const JsonFields fields(*value, Cat(placement.where(), ": centroids"));
  PlacementCentroids centroids;
  SHARD_TRY(const uint64_t count, NumberUpTo(fields, "layers", 1, layers.size()));
  centroids.layers = static_cast<uint32_t>(count);
  uint64_t expert_count = 0;
  auto layer = layers.begin();
  for (uint64_t i = 0; i < count; ++i) expert_count += (layer++)->second;
  SHARD_TRY(const std::string values, Base64Bytes(fields, "values", expert_count * groups));
  for (const char c : values) centroids.values.push_back(static_cast<uint8_t>(c));
  table.centroids = std::move(centroids);
  return Ok();
}

Status ReadSessionCounts(const JsonFields& placement, size_t groups, PlacementTable& table) {
  SHARD_TRY(const Json* sessions, ByGroup(placement, "sessions", groups));
  size_t used = 0;
  for (const Json& count : *sessions) {
    if (!count.is_number_unsigned() || count.get<uint64_t>() > UINT32_MAX)
      return placement.Wrong("sessions", "numbers below 2^32");
    table.sessions_by_group.push_back(count.get<uint32_t>());
    used += count.get<uint64_t>() > 0;
  }
  if (used >= 2) return Ok();
  return placement.Wrong("sessions", "sessions of two groups at least");
}

}  // namespace

Json PlacementToJson(const PlacementTable& table) {
  Json out = Json::object();
  out["rule"] = kPlacementRule;
  out["prefix_tokens"] = table.prefix_tokens;
  out["margin"] = table.margin;
  out["sessions"] = table.sessions_by_group;
  Json& trial = out["trial"] = Json::object();
  trial["sessions"] = table.trial.sessions;
  trial["right"] = table.trial.right;
  trial["sure"] = table.trial.sure;
  trial["sure_right"] = table.trial.sure_right;
  Json& tokens = out["tokens"] = Json::object();
  tokens["count"] = table.tokens.ids.size();
  tokens["left_out"] = table.tokens.left_out;
  tokens["scale"] = table.tokens.scale;
  tokens["ids"] = EncodeBase64(EncodeIds(table.tokens.ids));
  tokens["scores"] = EncodeBase64(BytesOf(table.tokens.scores));
  if (!table.centroids) return out;
  Json& centroids = out["centroids"] = Json::object();
  centroids["layers"] = table.centroids->layers;
  centroids["values"] = EncodeBase64(BytesOf(table.centroids->values));
  return out;
}

Result<PlacementTable> PlacementFromJson(const std::string& where, const Json& value, size_t groups,
                                         const LayerCounts& layers) {
  if (!value.is_object())
    return Error{Code::kCorrupt, Cat(where, ": expected an object, found ", DescribeJson(value))};
  const JsonFields fields(value, where);
  SHARD_TRY(const std::string rule, fields.String("rule"));
  if (rule != kPlacementRule) return fields.Wrong("rule", "\"table\"");
  PlacementTable table;
  SHARD_TRY(const uint64_t prefix, NumberUpTo(fields, "prefix_tokens", 1, kMaxPlacementPrefix));
  table.prefix_tokens = static_cast<uint32_t>(prefix);
  SHARD_TRY(table.margin, RealUpTo(fields, "margin", kMaxPlacementMargin));
  SHARD_CHECK(ReadSessionCounts(fields, groups, table));
  SHARD_CHECK(ReadTrial(fields, table.trial));
  SHARD_CHECK(ReadTokenScores(fields, groups, table.tokens));
  SHARD_CHECK(ReadCentroids(fields, groups, layers, table));
  return table;
}

Result<std::optional<PlacementTable>> LearnPlacement(const MoeModel& model,
                                                     const PlanOptions& options, const Plan& plan) {
  PlanOptions scores_alone;
  scores_alone.scores = options.scores;
  scores_alone.statistics_files = options.statistics_files;
  SHARD_TRY(const PlanBasis basis, BasisOf(model, scores_alone, plan));
  return PlacementFor(plan, *basis.scores);
}

}  // namespace moepack
