// Dumps of SGLang's expert distribution recorder as JSON, which ktransformers takes too:
// "logical_count" is [layers][experts] or [steps][layers][experts], with a row for every block of
// the model. A document with only "physical_to_logical_map" says where experts are placed, not
// which were chosen.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/import/export.h"
#include "libshard/import/import.h"
#include "libshard/import/score_table.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxDumpBytes = uint64_t{2} << 30;
constexpr const char* kCountKey = "logical_count";

// Adds up the rows as they are read, so that many steps take no more memory than one.
class CountReader final : public JsonEvents {
 public:
  explicit CountReader(const std::string& where) : where_(where) {}

  Status StartObject() override { return Open(false); }
  Status EndObject() override { return Close(); }
  Status Key(std::string_view key) override {
    if (depth_ != 1) return Ok();
    keys_.emplace(key);
    inside_ = key == kCountKey;
    return Ok();
  }
  Status StartArray() override {
    empty_ = true;
    column_ = 0;
    return Open(true);
  }
  Status EndArray() override {
    if (inside_ && depth_ >= kStepDepth && empty_) return Wrong("rows with numbers, found none");
    empty_ = false;
    if (inside_ && depth_ == number_depth_) {
      if (column_ != rows_[row_].size()) return Uneven();
      ++row_;
    } else if (inside_ && depth_ == kStepDepth) {
      if (row_ != rows_.size()) return Uneven();
      row_ = 0;
      closed_ = true;
    }
    return Close();
  }
  Status String(std::string_view) override { return NoNumber("text"); }
  Status Unsigned(uint64_t number) override { return Add(static_cast<double>(number)); }
  Status Negative(int64_t number) override { return Add(static_cast<double>(number)); }
  Status Float(double number) override { return Add(number); }
  Status Bool(bool) override { return NoNumber("true or false"); }
  Status Null() override { return NoNumber("null"); }

  const std::set<std::string>& keys() const { return keys_; }
  std::vector<std::vector<double>> TakeRows() { return std::move(rows_); }

 private:
  // The object is at 1 and the value at 2. Numbers are in arrays at 3, or at 4 where those at 3 are
  // steps.
  static constexpr size_t kStepDepth = 3, kLastDepth = 4;

  Error Wrong(const std::string& what) const {
    return {Code::kCorrupt, Cat(where_, ": ", kCountKey, ": expected ", what)};
  }
  Error Uneven() const { return Wrong("rows of equal length in every step, found another length"); }
  Status NoNumber(const char* found) const {
    if (!inside_) return Ok();
    return Wrong(Cat("lists of numbers, found ", found));
  }
  Status Open(bool array) {
    ++depth_;
    if (inside_ && (!array || depth_ > kLastDepth))
      return Wrong("[layers][experts] or [steps][layers][experts], found another nesting");
    return Ok();
  }
  Status Close() {
    --depth_;
    if (depth_ <= 1) inside_ = false;
    return Ok();
  }
  // Steps are added up, so the sum would hide an invalid count.
  Status CheckCount(double number) const {
    if (number >= 0 && number == std::floor(number)) return Ok();
    return Wrong(Cat("counts, found ", number, " for expert ", column_, " of row ", row_));
  }
  Status Add(double number) {
    if (!inside_) return Ok();
    if (number_depth_ == 0) number_depth_ = depth_;
    if (depth_ != number_depth_ || depth_ < kStepDepth)
      return Wrong("[layers][experts] or [steps][layers][experts], found another nesting");
    empty_ = false;
    SHARD_CHECK(CheckCount(number));
    if (row_ == rows_.size()) {
      if (closed_) return Uneven();
      if (row_ == kMaxStatisticsLayers)
        return Wrong(Cat("at most ", kMaxStatisticsLayers, " layers, found more"));
      rows_.emplace_back();
    }
    std::vector<double>& row = rows_[row_];
    if (column_ == row.size()) {
      if (closed_) return Uneven();
      if (column_ == kMaxStatisticsExperts)
        return Wrong(Cat("at most ", kMaxStatisticsExperts, " experts, found more"));
      row.push_back(0);
    }
    row[column_++] += number;
    return Ok();
  }

  const std::string& where_;
  std::set<std::string> keys_;
  std::vector<std::vector<double>> rows_;
  size_t depth_ = 0, number_depth_ = 0, row_ = 0, column_ = 0;
  bool inside_ = false;
  bool closed_ = false;  // a step has ended; later ones reuse its rows
  bool empty_ = false;   // of the innermost array so far
};

Result<ExpertScores> ReadSglangCounts(const ByteSource& file, const ImportOptions& options) {
  const std::string& where = file.name();
  SHARD_CHECK(CheckBasis(where, ScoreBasis::kCount, options));
  SHARD_TRY(const std::string text, ReadText(file, kMaxDumpBytes));
  CountReader reader(where);
  SHARD_CHECK(StreamJson(where, text, reader));
  if (!reader.keys().contains(kCountKey)) {
    const bool placement = reader.keys().contains("physical_to_logical_map");
    return Error{Code::kUnsupported,
                 Cat(where, ": ", kCountKey, ": expected counts, found ",
                     placement ? "only physical_to_logical_map, which says where experts lie and "
                                 "not which were chosen"
                               : "none"),
                 "dump the recorder in mode stat, stat_approx, per_pass or per_token"};
  }
  ScoreTable table;
  table.all_blocks = true;
  std::vector<std::vector<double>> rows = reader.TakeRows();
  for (size_t i = 0; i < rows.size(); ++i) table.rows.push_back({i, std::move(rows[i])});
  return ScoresFromTable(where, std::move(table), options);
}

bool LooksLikeSglang(std::string_view head) {
  return JsonHeadHas(head, "\"logical_count\"") || JsonHeadHas(head, "\"physical_to_logical_map\"");
}

}  // namespace

constinit const Importer kSglangImporter = {
    "sglang",
    "dumps of SGLang's expert recorder as JSON (logical_count), as ktransformers takes "
    "them",
    LooksLikeSglang, ReadSglangCounts};

// For SGLang's --init-expert-location, and for ktransformers, which takes the same file:
// "logical_count" [layers][experts], or "physical_to_logical_map" [layers][slots] of a plan, where
// each group is one rank of expert parallelism. SGLang has a row for every block, so blocks without
// experts get zeros, or in a placement the trivial order.

namespace {

Result<uint32_t> OneExpertCount(const ExpertScores& scores) {
  const uint32_t expected = scores.layers.front().expert_count;
  for (const MoeLayerShape& layer : scores.layers) {
    if (layer.expert_count == expected) continue;
    return Error{
        Code::kUnsupported,
        Cat("layer ", layer.layer, ": experts: expected the ", expected,
            " of the first layer, because the format is one table, found ", layer.expert_count)};
  }
  return expected;
}

// Rows by block; `fill` is used for blocks without experts.
Json BlockRows(const ExpertScores& scores, const Json& fill, std::vector<Json> rows) {
  Json table = Json::array();
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    while (table.size() < scores.layers[i].layer) table.push_back(fill);
    table.push_back(std::move(rows[i]));
  }
  return table;
}

Result<std::string> WriteLogicalCount(const ExpertScores& scores, const ExportOptions&) {
  SHARD_TRY(const uint32_t expert_count, OneExpertCount(scores));
  const std::vector<uint64_t> counts = WholeSums(scores);
  std::vector<Json> rows;
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    Json& row = rows.emplace_back(Json::array());
    for (uint32_t e = 0; e < expert_count; ++e) row.push_back(counts[scores.Offset(i) + e]);
  }
  const Json zeros = std::vector<uint64_t>(expert_count);
  Json json = Json::object();
  json["logical_count"] = BlockRows(scores, zeros, std::move(rows));
  return WriteJson(json);
}

// The slots of one layer: what each group may pick, group after group.
Result<std::vector<uint32_t>> SlotsOf(const ExportOptions& options, const MoeLayerShape& layer) {
  const Plan& plan = *options.plan;
  std::vector<uint32_t> slots;
  std::vector<bool> placed(layer.expert_count);
  const size_t size = Eligible(plan, 0, layer.layer).size();
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    const ExpertIds expert_ids = Eligible(plan, group, layer.layer);
    if (expert_ids.size() != size)
      return Error{
          Code::kInvalidArgument,
          Cat(options.plan_file, ": group ", group, ": layer ", layer.layer, ": expected the ",
              Plural(size, "expert"), " of group 0, because all ranks have as many slots, found ",
              expert_ids.size()),
          "plan with --uniform"};
    for (const uint32_t id : expert_ids) {
      if (id < placed.size()) placed[id] = true;
      slots.push_back(id);
    }
  }
  const auto missing = std::find(placed.begin(), placed.end(), false);
  if (missing == placed.end()) return slots;
  return Error{
      Code::kInvalidArgument,
      Cat(options.plan_file, ": layer ", layer.layer, ": expert ", missing - placed.begin(),
          ": expected in a group, because SGLang reaches every expert, found in none"),
      "plan again with a larger --eligible or another --partition than same; `moepack plan` "
      "warns of experts on no node"};
}

Result<std::string> WritePlacement(const ExpertScores& scores, const ExportOptions& options) {
  SHARD_TRY(const uint32_t expert_count, OneExpertCount(scores));
  const Plan& plan = *options.plan;
  std::vector<Json> rows;
  for (const MoeLayerShape& layer : scores.layers) {
    const auto found = plan.layers.find(layer.layer);
    if (found == plan.layers.end() || found->second != layer.expert_count)
      return Error{Code::kMismatch, Cat(options.plan_file, ": layer ", layer.layer, ": expected ",
                                        Plural(layer.expert_count, "expert"), ", found ",
                                        found == plan.layers.end() ? 0 : found->second)};
    SHARD_TRY(const std::vector<uint32_t> slots, SlotsOf(options, layer));
    if (!rows.empty() && rows.front().size() != slots.size())
      return Error{Code::kInvalidArgument, Cat(options.plan_file, ": layer ", layer.layer,
                                               ": expected ", Plural(rows.front().size(), "slot"),
                                               " as in the first layer, found ", slots.size())};
    rows.emplace_back(slots);
  }
  Json trivial = Json::array();
  for (size_t i = 0; i < rows.front().size(); ++i) trivial.push_back(i % expert_count);
  Json json = Json::object();
  json["physical_to_logical_map"] = BlockRows(scores, trivial, std::move(rows));
  return WriteJson(json);
}

}  // namespace

constinit const Exporter kSglangExporter = {
    "sglang",
    "counts for SGLang's --init-expert-location (JSON, logical_count)",
    ScoreBasis::kCount,
    false,
    false,
    WriteLogicalCount};

constinit const Exporter kKtransformersExporter = {
    "ktransformers",
    "the same file, which ktransformers takes for its expert placement",
    ScoreBasis::kCount,
    false,
    false,
    WriteLogicalCount};

constinit const Exporter kSglangPlacementExporter = {
    "sglang-placement",
    "a plan as SGLang's placement (JSON, physical_to_logical_map), a group per rank",
    ScoreBasis::kCount,
    false,
    true,
    WritePlacement};

}  // namespace moepack
