// route_trace v1, the CSV that BigMoeOnEdge writes (its docs, "Route trace"):
//
//   # route_trace v1
//   # model=<path> arch=<text> n_layer=<n> n_expert=<n> n_expert_used=<n>
//   # layer=<n> expert_bytes=<n> dense_bytes=<n>      one per layer; bytes of one expert
//   turn,phase,step,layer,slot,expert,weight,residency,expert_bytes
//   0,0,5,3,0,17,0.25,1,0                             phase: 0 prefill, 1 decode
//
// Columns are found by name, because some versions of the tool append more. A weight that the tool
// did not see is nan. `profile --trace` adds "experts=<n>" to the layers' lines and names turns:
//
//   # turn=<n> {"session":"a.txt","bucket":"code"}
//
// A preamble in the middle begins another trace, whose turns follow the previous ones.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/import/trace_builder.h"

namespace moepack {
namespace {

constexpr std::string_view kTraceTitle = "# route_trace v";

template <class T>
bool ParseTraceNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// The value of `key` ("n_expert=") in "# model=a b n_expert=4": the last one counts, because a
// path may contain anything.
std::optional<std::string_view> ValueIn(std::string_view line, std::string_view key) {
  const size_t at = line.rfind(Cat(" ", key));
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + 1 + key.size());
  return rest.substr(0, rest.find(' '));
}

class TraceTable {
 public:
  TraceTable(const ByteSource& source, const TraceOptions& options)
      : lines_(source), builder_(source.name(), options) {}

  Result<RouteTrace> Read() {
    while (true) {
      SHARD_TRY(const std::optional<std::string_view> line, lines_.Next());
      if (!line) break;
      if (line->empty()) continue;
      if (line->starts_with('#')) {
        SHARD_CHECK(Comment(*line));
      } else if (!IsDigit(line->front())) {
        SHARD_CHECK(Heading(*line));
      } else {
        SHARD_CHECK(Row(*line));
      }
    }
    SHARD_TRY(RouteTrace trace, builder_.Finish(turns_));
    trace.format = "route_trace v1";
    trace.digest = lines_.Digest();
    trace.model = model_;
    return trace;
  }

 private:
  enum Column : size_t { kTurn, kPhase, kStep, kLayer, kSlot, kExpert, kWeight, kColumns };
  static constexpr std::array<std::string_view, kColumns> kNames = {
      "turn", "phase", "step", "layer", "slot", "expert", "weight"};

  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }

  Status AtLine(Status status) {
    if (status) return Ok();
    return std::move(status).error().Within(lines_.Where());
  }

  Status Comment(std::string_view line) {
    if (line.starts_with(kTraceTitle)) return Title(line);
    if (line.starts_with("# model=")) return ModelLine(line);
    if (line.starts_with("# layer=")) return LayerLine(line);
    if (line.starts_with("# turn=")) return TurnLine(line);
    return Ok();
  }

  Status Title(std::string_view line) {
    if (line != Cat(kTraceTitle, 1))
      return Error{Code::kUnsupported,
                   Cat(lines_.Where(), ": expected route_trace v1, found ", Quoted(line))};
    if (builder_.choices() > 0) first_turn_ = next_turn_;
    columns_.reset();
    return Ok();
  }

  Status ModelLine(std::string_view line) {
    const auto experts = ValueIn(line, "n_expert=");
    const std::string_view name = line.substr(std::string_view("# model=").size());
    model_ = std::string(name.substr(0, name.find(" arch=")));
    if (!experts) return Ok();
    uint64_t count = 0;
    if (!ParseTraceNumber(*experts, count))
      return lines_.Wrong("a number after n_expert=", *experts);
    return AtLine(builder_.StateExperts(count));
  }

  Status LayerLine(std::string_view line) {
    uint32_t layer = 0;
    const auto number = ValueIn(line, "layer=");
    if (!number || !ParseTraceNumber(*number, layer))
      return lines_.Wrong("a number after layer=", line);
    const auto given = [&](std::string_view key, auto take) -> Status {
      const auto text = ValueIn(line, key);
      if (!text) return Ok();
      uint64_t value = 0;
      if (!ParseTraceNumber(*text, value)) return lines_.Wrong(Cat("a number after ", key), *text);
      return AtLine(take(value));
    };
    SHARD_CHECK(
        given("expert_bytes=", [&](uint64_t bytes) { return builder_.StateBytes(layer, bytes); }));
    return given("experts=", [&](uint64_t count) { return builder_.StateExperts(layer, count); });
  }

  Status TurnLine(std::string_view line) {
    const size_t brace = line.find(" {");
    const auto number = ValueIn(line.substr(0, brace), "turn=");
    uint32_t turn = 0;
    if (!number || !ParseTraceNumber(*number, turn) || turn > kMaxTraceTurn - first_turn_ ||
        brace == std::string_view::npos)
      return lines_.Wrong("turn=N and an object", line);
    const std::string where = lines_.Where();
    SHARD_TRY(const Json object, ParseJson(where, line.substr(brace + 1)));
    const JsonFields fields(object, where);
    TraceTurn named;
    SHARD_TRY(named.name, fields.StringOr("session", ""));
    SHARD_TRY(named.bucket, fields.StringOr("bucket", ""));
    turns_[first_turn_ + turn] = std::move(named);
    return Ok();
  }

  Status Heading(std::string_view line) {
    SplitTraceRow(line, fields_);
    columns_.emplace();
    columns_->fill(kNone);
    for (size_t i = 0; i < fields_.size(); ++i) {
      for (size_t column = 0; column < kColumns; ++column) {
        if (fields_[i] == kNames[column]) (*columns_)[column] = i;
      }
    }
    for (const size_t column : {kTurn, kPhase, kStep, kLayer, kExpert}) {
      if ((*columns_)[column] != kNone) continue;
      return Error{Code::kCorrupt, Cat(lines_.Where(), ": expected a column ",
                                       Quoted(kNames[column]), ", found ", Quoted(line))};
    }
    column_count_ = fields_.size();
    return Ok();
  }

  Result<uint32_t> Number(Column column, uint32_t most) {
    const std::string_view text = fields_[(*columns_)[column]];
    uint32_t value = 0;
    if (ParseTraceNumber(text, value) && value <= most) return value;
    return Error{Code::kCorrupt,
                 Cat(lines_.Where(), ": ", kNames[column], ": expected a number of at most ", most,
                     ", found ", Quoted(text))};
  }

  // No value for "nan".
  Result<std::optional<float>> Weight() {
    if ((*columns_)[kWeight] == kNone) return std::optional<float>();
    const std::string_view text = fields_[(*columns_)[kWeight]];
    float value = 0;
    if (!ParseTraceNumber(text, value))
      return Error{Code::kCorrupt,
                   Cat(lines_.Where(), ": weight: expected a number, found ", Quoted(text))};
    return std::isnan(value) ? std::optional<float>() : std::optional(value);
  }

  Status Row(std::string_view line) {
    if (!columns_) return lines_.Wrong("the names of the columns first", line);
    SplitTraceRow(line, fields_);
    if (fields_.size() != column_count_)
      return Error{Code::kCorrupt, Cat(lines_.Where(), ": expected ", column_count_,
                                       " columns, found ", fields_.size())};
    TraceChoice choice;
    SHARD_TRY(const uint32_t turn, Number(kTurn, kMaxTraceTurn - first_turn_));
    SHARD_TRY(const uint32_t phase, Number(kPhase, 1));
    SHARD_TRY(choice.position, Number(kStep, UINT32_MAX));
    SHARD_TRY(choice.layer, Number(kLayer, UINT32_MAX));
    SHARD_TRY(choice.expert, Number(kExpert, UINT32_MAX));
    SHARD_TRY(choice.weight, Weight());
    choice.turn = first_turn_ + turn;
    choice.phase = phase == 0 ? Phase::kPrefill : Phase::kDecode;
    next_turn_ = std::max(next_turn_, std::min(choice.turn, kMaxTraceTurn - 1) + 1);
    return AtLine(builder_.Add(choice));
  }

  static constexpr size_t kNone = SIZE_MAX;

  TraceLines lines_;
  TraceBuilder builder_;
  std::string model_;
  std::map<uint32_t, TraceTurn> turns_;
  std::optional<std::array<size_t, kColumns>> columns_;
  size_t column_count_ = 0;
  std::vector<std::string_view> fields_;
  uint32_t first_turn_ = 0, next_turn_ = 0;
};

}  // namespace

Result<RouteTrace> ReadTraceTable(const ByteSource& source, const TraceOptions& options) {
  return TraceTable(source, options).Read();
}

}  // namespace moepack
