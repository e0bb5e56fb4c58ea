// Dumps of SGLang's expert distribution recorder as JSON, which ktransformers takes too:
// "logical_count" is [layers][experts] or [steps][layers][experts], with a row for every block of
// the model. A document with only "physical_to_logical_map" says where experts are placed, not
// which were chosen.
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/import/importers.h"
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

}  // namespace moepack
