// Traces without a heading, as tools around llama.cpp write them while a graph runs:
//
//   layer,expert          one row per chosen expert; a heading "layer,expert" may come first
//   pos,layer,id,id,...   one row per token and layer, best expert first; negative in the prompt
//
// A batch of tokens runs through the layers in order, and each layer gives its rows for all tokens
// of the batch at once. A batch ends where the layer number does not increase. Files may be
// concatenated: after decoding, a batch of a prompt begins another turn.
#include <algorithm>
#include <charconv>
#include <numeric>

#include "libshard/base/text/text.h"
#include "libshard/import/trace_builder.h"

namespace moepack {
namespace {

// Consecutive rows of one layer.
struct TraceRun {
  uint32_t layer = 0;
  uint64_t end = 0;  // of its ids
};

class TraceRuns {
 public:
  TraceRuns(const ByteSource& source, const TraceOptions& options)
      : lines_(source), builder_(source.name(), options) {}

  Result<RouteTrace> Read() {
    SHARD_CHECK(ReadRows());
    SHARD_TRY(const uint32_t top_k, TopK());
    SHARD_CHECK(AddBatches(top_k));
    SHARD_TRY(RouteTrace trace, builder_.Finish({}));
    trace.format = wide_ ? "pos,layer,id,..." : kLayerExpertFormat;
    trace.digest = lines_.Digest();
    if (inferred_)
      trace.warnings.push_back(Cat(lines_.Name(), ": the experts per token are not in the file; ",
                                   top_k, " divides the rows of every layer"));
    return trace;
  }

 private:
  template <class T>
  Result<T> Number(std::string_view text, const char* what) const {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && !text.empty()) return value;
    return Error{Code::kCorrupt,
                 Cat(lines_.Where(), ": ", what, ": expected a number, found ", Quoted(text))};
  }

  Status ReadRows() {
    while (true) {
      SHARD_TRY(const std::optional<std::string_view> line, lines_.Next());
      if (!line) return Ok();
      if (line->empty() || *line == "layer,expert" || line->starts_with('#')) continue;
      SplitTraceRow(*line, fields_);
      if (width_ == 0) {
        width_ = fields_.size();
        wide_ = width_ > 2;
      }
      if (fields_.size() != width_ || width_ < 2)
        return Error{Code::kCorrupt, Cat(lines_.Where(), ": expected ", std::max<size_t>(width_, 2),
                                         " columns, found ", fields_.size())};
      SHARD_CHECK(AddRow());
    }
  }

  Status AddRow() {
    bool prompt = false;
    if (wide_) {
      SHARD_TRY(const int64_t position, Number<int64_t>(fields_[0], "position"));
      prompt = position < 0;
    }
    const size_t first = wide_ ? 1 : 0;
    SHARD_TRY(const uint32_t layer, Number<uint32_t>(fields_[first], "layer"));
    // The same layer continues, unless the prompt ends in it: a model with one MoE layer.
    if (runs_.empty() || runs_.back().layer != layer || (wide_ && prompt != prompts_.back())) {
      runs_.push_back({layer, ids_.size()});
      prompts_.push_back(prompt);
    }
    for (size_t i = first + 1; i < fields_.size(); ++i) {
      SHARD_TRY(const uint32_t id, Number<uint32_t>(fields_[i], "expert"));
      if (id >= kMaxStatisticsExperts)
        return Error{Code::kCorrupt, Cat(lines_.Where(), ": expert: expected a number below ",
                                         kMaxStatisticsExperts, ", found ", id)};
      ids_.push_back(static_cast<uint16_t>(id));
    }
    runs_.back().end = ids_.size();
    return Ok();
  }

  uint64_t BeginOf(size_t run) const { return run == 0 ? 0 : runs_[run - 1].end; }

  // No token chooses an expert twice.
  bool IsDistinct(uint64_t top_k) const {
    std::vector<uint64_t> last(kMaxStatisticsExperts, UINT64_MAX);
    for (uint64_t i = 0; i < ids_.size(); ++i) {
      const uint64_t token = i / top_k;  // runs are whole tokens
      if (last[ids_[i]] == token) return false;
      last[ids_[i]] = token;
    }
    return true;
  }

  // The rows of a run are tokens x top-k, and a decoded token has a run of its own.
  Result<uint32_t> TopK() {
    if (wide_) return static_cast<uint32_t>(width_ - 2);
    uint64_t divisor = 0;
    for (size_t run = 0; run < runs_.size(); ++run)
      divisor = std::gcd(divisor, runs_[run].end - BeginOf(run));
    std::optional<uint32_t> known = builder_.options().top_k;
    const std::vector<MoeLayerShape>& layers = builder_.options().layers;
    if (!known && !layers.empty() && layers[0].top_k > 0) known = layers[0].top_k;
    if (known) {
      if (divisor % std::max(*known, 1u) == 0 && *known > 0) return *known;
      return Error{Code::kCorrupt, Cat(lines_.Name(), ": expected ", *known,
                                       " rows per token and layer, found ", divisor, " in some")};
    }
    inferred_ = divisor > 0;
    for (uint64_t top_k = std::min<uint64_t>(divisor, kMaxStatisticsExperts); top_k > 1; --top_k) {
      if (divisor % top_k == 0 && IsDistinct(top_k)) return static_cast<uint32_t>(top_k);
    }
    return uint32_t{1};
  }

  // A layer may have fewer tokens than its batch: the last ones.
  Status AddBatches(uint32_t top_k) {
    size_t run = 0;
    while (run < runs_.size()) {
      size_t end = run + 1;
      while (end < runs_.size() && runs_[end].layer > runs_[end - 1].layer) ++end;
      uint64_t tokens = 0;
      for (size_t i = run; i < end; ++i)
        tokens = std::max(tokens, (runs_[i].end - BeginOf(i)) / top_k);
      const bool prompt = wide_ ? prompts_[run] : tokens > 1;
      if (prompt && decoded_) {
        ++turn_;
        position_ = 0;
      }
      decoded_ = !prompt;
      if (position_ + tokens > UINT32_MAX || turn_ > kMaxTraceTurn)
        return Error{Code::kCorrupt, Cat(lines_.Name(), ": expected fewer tokens, found ",
                                         position_ + tokens, " in turn ", turn_)};
      for (; run < end; ++run) SHARD_CHECK(AddRun(run, tokens, top_k, prompt));
      position_ += tokens;
    }
    return Ok();
  }

  Status AddRun(size_t run, uint64_t tokens, uint32_t top_k, bool prompt) {
    const uint64_t begin = BeginOf(run);
    const uint64_t own = (runs_[run].end - begin) / top_k;
    TraceChoice choice;
    choice.turn = turn_;
    choice.phase = prompt ? Phase::kPrefill : Phase::kDecode;
    choice.layer = runs_[run].layer;
    for (uint64_t i = begin; i < runs_[run].end; ++i) {
      choice.position = static_cast<uint32_t>(position_ + tokens - own + (i - begin) / top_k);
      choice.expert = ids_[i];
      auto status = builder_.Add(choice);
      if (!status) return std::move(status).error().Within(lines_.Name());
    }
    return Ok();
  }

  TraceLines lines_;
  TraceBuilder builder_;
  std::vector<std::string_view> fields_;
  size_t width_ = 0;
  bool wide_ = false, inferred_ = false, decoded_ = false;
  std::vector<TraceRun> runs_;
  std::vector<bool> prompts_;  // by run
  std::vector<uint16_t> ids_;
  uint32_t turn_ = 0;
  uint64_t position_ = 0;
};

}  // namespace

Result<RouteTrace> ReadTraceRuns(const ByteSource& source, const TraceOptions& options) {
  return TraceRuns(source, options).Read();
}

}  // namespace moepack
