#include "libshard/import/trace_builder.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// A row of `pos,layer,id,...` has at most 4096 ids of 4 digits.
constexpr size_t kMaxTraceLine = 1u << 16;

}  // namespace

Status TraceLines::Fill() {
  buffer_.erase(0, next_);
  next_ = 0;
  SHARD_TRY(const std::string_view piece, text_.Next());
  digest_.Update(std::as_bytes(std::span(piece)));
  buffer_ += piece;
  ended_ = piece.empty();
  return Ok();
}

Result<std::optional<std::string_view>> TraceLines::Next() {
  size_t end = buffer_.find('\n', next_);
  while (end == std::string::npos && !ended_) {
    if (buffer_.size() - next_ > kMaxTraceLine) break;
    const size_t unfinished = buffer_.size() - next_;
    SHARD_CHECK(Fill());
    end = buffer_.find('\n', unfinished);
  }
  ++number_;
  if (end == std::string::npos && next_ == buffer_.size()) return std::optional<std::string_view>();
  const size_t stop = std::min(end, buffer_.size());
  std::string_view line = std::string_view(buffer_).substr(next_, stop - next_);
  if (line.size() > kMaxTraceLine)
    return Error{Code::kCorrupt,
                 Cat(Where(), ": expected at most ", kMaxTraceLine, " bytes, found more")};
  next_ = std::min(stop + 1, buffer_.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  return std::optional(line);
}

std::string TraceLines::Where() const { return Cat(name_, ": line ", number_); }

Error TraceLines::Wrong(std::string_view expected, std::string_view found) const {
  return {Code::kCorrupt, Cat(Where(), ": expected ", expected, ", found ", Quoted(found))};
}

void SplitTraceRow(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  size_t begin = 0;
  for (size_t comma = line.find(','); comma != std::string_view::npos;
       comma = line.find(',', begin)) {
    fields.push_back(line.substr(begin, comma - begin));
    begin = comma + 1;
  }
  fields.push_back(line.substr(begin));
}

namespace {

constexpr uint64_t kTraceDecode = uint64_t{1} << 32;

// Orders steps by turn, phase and position.
uint64_t TraceKey(const TraceChoice& choice) {
  return uint64_t{choice.turn} << 33 | (choice.phase == Phase::kDecode ? kTraceDecode : 0) |
         choice.position;
}

TraceStep TraceStepOf(uint64_t key) {
  return {static_cast<uint32_t>(key >> 33),
          (key & kTraceDecode) != 0 ? Phase::kDecode : Phase::kPrefill, static_cast<uint32_t>(key)};
}

std::string ShownTraceStep(uint64_t key) {
  const TraceStep step = TraceStepOf(key);
  return Cat("step ", step.position, " of turn ", step.turn, ", ",
             kPhaseNames[static_cast<size_t>(step.phase)]);
}

// `turn` of the step is the number in the file.
void AddTraceStep(TraceStep step, const std::map<uint32_t, TraceTurn>& turns, uint32_t& last_turn,
                  RouteTrace& trace) {
  if (trace.steps.empty() || step.turn != last_turn) {
    const auto named = turns.find(step.turn);
    trace.turns.push_back(named == turns.end() ? TraceTurn{} : named->second);
    last_turn = step.turn;
  }
  step.turn = static_cast<uint32_t>(trace.turns.size() - 1);
  trace.steps.push_back(step);
}

const MoeLayerShape* FindTraceShape(const std::vector<MoeLayerShape>& layers, uint32_t layer) {
  const auto it = std::find_if(layers.begin(), layers.end(),
                               [&](const MoeLayerShape& shape) { return shape.layer == layer; });
  return it == layers.end() ? nullptr : &*it;
}

// A file that was cut may end within a step, which then has fewer choices than all others of its
// phase.
void WarnOfCutStep(const std::string& path, uint64_t last_key, RouteTrace& trace) {
  std::vector<uint64_t> choices(trace.steps.size());
  for (const LayerTrace& layer : trace.layers) {
    for (size_t i = 0; i < layer.steps.size(); ++i)
      choices[layer.steps[i]] += layer.Chosen(i).size();
  }
  uint64_t usual = 0, others = 0;
  for (size_t i = 0; i + 1 < choices.size(); ++i) {
    if (trace.steps[i].phase != trace.steps.back().phase) continue;
    if (others++ > 0 && usual != choices[i]) return;
    usual = choices[i];
  }
  if (others < 2 || choices.back() >= usual) return;
  trace.warnings.push_back(Cat(path, ": ", ShownTraceStep(last_key), ": expected ",
                               Plural(usual, "choice"), " as in the other steps, found ",
                               choices.back(), ": the end of the file may be missing"));
}

}  // namespace

TraceBuilder::TraceBuilder(std::string path, const TraceOptions& options)
    : path_(std::move(path)), options_(options) {}

Status TraceBuilder::StateExperts(uint64_t expert_count) {
  if (expert_count == 0 || expert_count > kMaxStatisticsExperts)
    return Error{Code::kCorrupt,
                 Cat("experts: expected 1 to ", kMaxStatisticsExperts, ", found ", expert_count)};
  if (experts_ && *experts_ != expert_count)
    return Error{Code::kCorrupt,
                 Cat("experts: expected ", *experts_, " as before, found ", expert_count)};
  experts_ = static_cast<uint32_t>(expert_count);
  return Ok();
}

Status TraceBuilder::StateExperts(uint32_t layer, uint64_t expert_count) {
  if (expert_count == 0 || expert_count > kMaxStatisticsExperts)
    return Error{Code::kCorrupt, Cat("layer ", layer, ": experts: expected 1 to ",
                                     kMaxStatisticsExperts, ", found ", expert_count)};
  SHARD_TRY(Rows* const rows, RowsOf(layer));
  rows->experts = static_cast<uint32_t>(expert_count);
  return Ok();
}

Status TraceBuilder::StateBytes(uint32_t layer, uint64_t expert_bytes) {
  if (expert_bytes == 0) return Ok();  // a layer without experts
  SHARD_TRY(Rows* const rows, RowsOf(layer));
  rows->trace.expert_bytes = expert_bytes;
  return Ok();
}

Result<TraceBuilder::Rows*> TraceBuilder::RowsOf(uint32_t layer) {
  if (last_ != nullptr && last_layer_ == layer) return last_;
  if (layer >= kMaxStatisticsLayers)
    return Error{Code::kCorrupt,
                 Cat("layer: expected a number below ", kMaxStatisticsLayers, ", found ", layer)};
  const MoeLayerShape* model = FindTraceShape(options_.layers, layer);
  if (!options_.layers.empty() && model == nullptr)
    return Error{Code::kMismatch, Cat("layer ", layer, ": expected no experts, found a choice"),
                 "a trace belongs to one model"};
  last_ = &layers_[layer];
  last_layer_ = layer;
  last_->trace.shape.layer = layer;
  last_->model = model;
  return last_;
}

Status TraceBuilder::CheckExpert(const TraceChoice& choice, Rows& rows) const {
  const uint32_t limit = rows.model != nullptr
                             ? rows.model->expert_count
                             : rows.experts.value_or(experts_.value_or(kMaxStatisticsExperts));
  if (choice.expert >= limit)
    return Error{rows.model != nullptr ? Code::kMismatch : Code::kCorrupt,
                 Cat("layer ", choice.layer, ": expert: expected a number below ", limit,
                     ", found ", choice.expert)};
  rows.largest = std::max(rows.largest.value_or(0), choice.expert);
  if (choice.weight && (!std::isfinite(*choice.weight) || *choice.weight < 0))
    return Error{Code::kCorrupt,
                 Cat("weight: expected a finite number, not negative, found ", *choice.weight)};
  return Ok();
}

Status TraceBuilder::Add(const TraceChoice& choice) {
  SHARD_TRY(Rows* const rows, RowsOf(choice.layer));
  SHARD_CHECK(CheckExpert(choice, *rows));
  LayerTrace& trace = rows->trace;
  const uint64_t key = TraceKey(choice);
  if (rows->keys.empty() || key > rows->keys.back()) {
    rows->keys.push_back(key);
    trace.ends.push_back(trace.expert_ids.size());
  } else if (key < rows->keys.back()) {
    return Error{Code::kCorrupt,
                 Cat("layer ", choice.layer, ": expected no step before ",
                     ShownTraceStep(rows->keys.back()), ", found ", ShownTraceStep(key))};
  }
  const auto id = static_cast<uint16_t>(choice.expert);
  const auto first =
      trace.expert_ids.begin() + static_cast<std::ptrdiff_t>(trace.begin(trace.ends.size() - 1));
  if (std::find(first, trace.expert_ids.end(), id) != trace.expert_ids.end())
    return Error{Code::kCorrupt, Cat("layer ", choice.layer, ": ", ShownTraceStep(key),
                                     ": expected every expert once, found ", id, " twice")};
  trace.expert_ids.push_back(id);
  ++trace.ends.back();
  trace.shape.top_k = std::max(trace.shape.top_k,
                               static_cast<uint32_t>(trace.Chosen(trace.ends.size() - 1).size()));
  rows->weighted = rows->weighted && choice.weight.has_value();
  if (rows->weighted) trace.weights.push_back(*choice.weight);
  ++choices_;
  return Ok();
}

// If nobody says how many experts there are, all layers have as many as the largest id requires.
Status TraceBuilder::SetShapes(RouteTrace& trace) {
  uint32_t largest = 0;
  for (const auto& [layer, rows] : layers_) largest = std::max(largest, rows.largest.value_or(0));
  bool guessed = false;
  for (LayerTrace& layer : trace.layers) {
    const Rows& rows = layers_.at(layer.shape.layer);
    if (rows.model != nullptr) {
      const std::optional<uint32_t> stated = rows.experts ? rows.experts : experts_;
      if (stated && *stated != rows.model->expert_count)
        return Error{Code::kMismatch,
                     Cat(path_, ": layer ", layer.shape.layer, ": experts: expected ",
                         rows.model->expert_count, ", found ", *stated),
                     "a trace belongs to one model"};
      layer.shape.expert_count = rows.model->expert_count;
      continue;
    }
    guessed = guessed || (!rows.experts && !experts_);
    layer.shape.expert_count = rows.experts ? *rows.experts : experts_.value_or(largest + 1);
  }
  if (guessed)
    trace.warnings.push_back(Cat(path_, ": the number of experts is not in the file; ", largest + 1,
                                 " is the largest id and one"));
  return Ok();
}

Result<RouteTrace> TraceBuilder::Finish(const std::map<uint32_t, TraceTurn>& turns) {
  if (choices_ == 0)
    return Error{Code::kCorrupt, Cat(path_, ": expected a row for each chosen expert, found none")};
  std::vector<uint64_t> keys;
  for (const auto& [layer, rows] : layers_) {
    const auto middle = static_cast<std::ptrdiff_t>(keys.size());
    keys.insert(keys.end(), rows.keys.begin(), rows.keys.end());
    std::inplace_merge(keys.begin(), keys.begin() + middle, keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  }
  RouteTrace trace;
  uint32_t last_turn = 0;
  for (const uint64_t key : keys) AddTraceStep(TraceStepOf(key), turns, last_turn, trace);
  bool weighted = true;
  for (auto& [layer, rows] : layers_) {
    if (rows.keys.empty()) continue;
    auto next = keys.begin();
    for (const uint64_t key : rows.keys) {
      next = std::find(next, keys.end(), key);
      rows.trace.steps.push_back(static_cast<uint32_t>(next - keys.begin()));
    }
    weighted = weighted && rows.weighted;
    trace.layers.push_back(std::move(rows.trace));
  }
  if (!weighted) {
    for (LayerTrace& layer : trace.layers) layer.weights.clear();
  }
  SHARD_CHECK(SetShapes(trace));
  WarnOfCutStep(path_, keys.back(), trace);
  return trace;
}

}  // namespace moepack
