// glm52-routing-trace-export/v2, the JSON of an mlx-lm fork. These parts are read:
//
//   schema                                 "glm52-routing-trace-export/v2"
//   routing.n_expert_per_layer             experts of every layer
//   layers.<block>.executed_topk           one row per token: its experts, best first
//   conditional.prompts[]                  category, start_row, prefill_rows, end_row
//
// executed_scores are selection scores (sigmoid and bias), not gates, so they are left out.
#include <algorithm>
#include <map>

#include "libshard/base/digest.h"
#include "libshard/base/files/zstd.h"
#include "libshard/base/text/json_stream.h"
#include "libshard/base/text/text.h"
#include "libshard/import/trace_builder.h"

namespace moepack {
namespace {

constexpr std::string_view kExportSchema = "glm52-routing-trace-export/v2";

struct TracePrompt {
  std::string category;
  uint64_t start = 0, prefill = 0, end = 0;  // rows
};

// Rows of one layer.
struct ExportedLayer {
  std::vector<uint64_t> ends;
  std::vector<uint16_t> expert_ids;
};

// Picks the parts that are read out of the document's stream, and drops the rest.
class ExportEvents final : public JsonEvents {
 public:
  explicit ExportEvents(std::string path) : path_(std::move(path)) {}

  Status StartObject() override {
    if (At({"conditional", "prompts", "[]"})) prompts.emplace_back();
    return Push("");
  }
  Status EndObject() override { return Pop(); }
  Status StartArray() override {
    SHARD_CHECK(Push("[]"));
    if (IsLayerRows(2)) {
      ExportedLayer& layer = layers[names_[1]];
      layer.ends.push_back(layer.expert_ids.size());
    }
    return Ok();
  }
  Status EndArray() override { return Pop(); }
  Status Key(std::string_view key) override {
    names_.back() = std::string(key);
    return Ok();
  }
  Status String(std::string_view text) override {
    if (At({"schema"})) schema = std::string(text);
    if (At({"conditional", "prompts", "[]", "category"}))
      prompts.back().category = std::string(text);
    return Ok();
  }
  Status Unsigned(uint64_t number) override {
    if (IsLayerRows(2)) return Id(number);
    if (At({"routing", "n_expert_per_layer"})) experts = number;
    if (At({"conditional", "prompts", "[]", "start_row"})) prompts.back().start = number;
    if (At({"conditional", "prompts", "[]", "prefill_rows"})) prompts.back().prefill = number;
    if (At({"conditional", "prompts", "[]", "end_row"})) prompts.back().end = number;
    return Ok();
  }
  Status Negative(int64_t number) override { return NoId(Cat(number)); }
  Status Float(double number) override { return NoId(Cat(number)); }
  Status Bool(bool value) override { return NoId(value ? "true" : "false"); }
  Status Null() override { return NoId("null"); }

  std::string schema;
  std::optional<uint64_t> experts;
  std::map<std::string, ExportedLayer> layers;
  std::vector<TracePrompt> prompts;

 private:
  Status Push(const char* name) {
    names_.emplace_back(name);
    return Ok();
  }
  Status Pop() {
    names_.pop_back();
    return Ok();
  }
  // Whether this is the place of the next value; "[]" stands for an element of an array.
  bool At(std::initializer_list<std::string_view> names) const {
    return std::equal(names.begin(), names.end(), names_.begin(), names_.end());
  }
  bool IsLayerRows(size_t depth) const {
    return names_.size() == 3 + depth && names_[0] == "layers" && names_[2] == "executed_topk" &&
           names_[3] == "[]" && names_[4] == "[]";
  }
  Status Id(uint64_t number) {
    if (number >= kMaxStatisticsExperts) return NoId(Cat(number));
    ExportedLayer& layer = layers[names_[1]];
    layer.expert_ids.push_back(static_cast<uint16_t>(number));
    layer.ends.back() = layer.expert_ids.size();
    return Ok();
  }
  Status NoId(const std::string& found) const {
    if (!IsLayerRows(2)) return Ok();
    return Error{Code::kCorrupt, Cat(path_, ": layers: ", Quoted(names_[1]),
                                     ": executed_topk: expected an expert's id, found ", found)};
  }

  std::string path_;
  std::vector<std::string> names_;  // the path from the document to the next value
};

class TraceExport {
 public:
  TraceExport(const ByteSource& source, const TraceOptions& options)
      : source_(source), events_(source.name()), builder_(source.name(), options) {}

  Result<RouteTrace> Read() {
    SHARD_CHECK(ReadEvents());
    if (events_.schema != kExportSchema)
      return Error{events_.schema.starts_with("glm52-routing-trace-export/") ? Code::kUnsupported
                                                                             : Code::kCorrupt,
                   Cat(source_.name(), ": schema: expected ", Quoted(kExportSchema), ", found ",
                       Quoted(events_.schema))};
    if (events_.experts) {
      auto status = builder_.StateExperts(*events_.experts);
      if (!status) return std::move(status).error().Within(source_.name());
    }
    SHARD_CHECK(CheckPrompts());
    for (const auto& [name, layer] : events_.layers) SHARD_CHECK(AddLayer(name, layer));
    std::map<uint32_t, TraceTurn> turns;
    for (uint32_t i = 0; i < events_.prompts.size(); ++i)
      turns[i] = {Cat("prompt ", i), events_.prompts[i].category};
    SHARD_TRY(RouteTrace trace, builder_.Finish(turns));
    trace.format = std::string(kExportSchema);
    trace.digest = digest_;
    return trace;
  }

 private:
  Status ReadEvents() {
    SourceText text(source_);
    Xxh3 digest;
    const NextPiece next = [&]() -> Result<std::string_view> {
      SHARD_TRY(const std::string_view piece, text.Next());
      digest.Update(std::as_bytes(std::span(piece)));
      return piece;
    };
    SHARD_CHECK(StreamJson(source_.name(), next, events_));
    digest_ = digest.Hex();
    return source_.CheckUnchanged();
  }

  Error Wrong(const std::string& what) const {
    return {Code::kCorrupt, Cat(source_.name(), ": ", what)};
  }

  // Without prompts all rows belong to one.
  Status CheckPrompts() {
    uint64_t rows = 0;
    for (const auto& [name, layer] : events_.layers)
      rows = std::max<uint64_t>(rows, layer.ends.size());
    if (events_.prompts.empty()) events_.prompts.push_back({"", 0, rows, rows});
    uint64_t next = 0;
    for (const TracePrompt& prompt : events_.prompts) {
      if (prompt.start != next || prompt.end < prompt.start ||
          prompt.prefill > prompt.end - prompt.start || prompt.end > rows)
        return Wrong(Cat("conditional: prompts: expected rows from ", next, " to at most ", rows,
                         ", found ", prompt.start, " to ", prompt.end, " with ", prompt.prefill,
                         " of the prompt"));
      next = prompt.end;
    }
    if (next == rows) return Ok();
    return Wrong(Cat("conditional: prompts: expected ", rows, " rows, found ", next));
  }

  Status AddLayer(const std::string& name, const ExportedLayer& layer) {
    const std::optional<uint64_t> number = ParseUint(name);
    if (!number || *number >= kMaxStatisticsLayers)
      return Wrong(Cat("layers: expected a number, found ", Quoted(name)));
    if (layer.ends.size() != events_.prompts.back().end)
      return Wrong(Cat("layers: ", Quoted(name), ": executed_topk: expected ",
                       events_.prompts.back().end, " rows, found ", layer.ends.size()));
    TraceChoice choice;
    choice.layer = static_cast<uint32_t>(*number);
    uint64_t id = 0;
    for (uint32_t turn = 0; turn < events_.prompts.size(); ++turn) {
      const TracePrompt& prompt = events_.prompts[turn];
      choice.turn = turn;
      for (uint64_t row = prompt.start; row < prompt.end; ++row) {
        choice.position = static_cast<uint32_t>(row - prompt.start);
        choice.phase = row - prompt.start < prompt.prefill ? Phase::kPrefill : Phase::kDecode;
        for (; id < layer.ends[row]; ++id) {
          choice.expert = layer.expert_ids[id];
          auto status = builder_.Add(choice);
          if (!status) return std::move(status).error().Within(source_.name());
        }
      }
    }
    return Ok();
  }

  const ByteSource& source_;
  ExportEvents events_;
  std::string digest_;
  TraceBuilder builder_;
};

}  // namespace

Result<RouteTrace> ReadTraceExport(const ByteSource& source, const TraceOptions& options) {
  return TraceExport(source, options).Read();
}

}  // namespace moepack
