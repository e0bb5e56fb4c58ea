#include "runtime-shim/profile/collector.h"

#include <algorithm>

namespace moepack::runtime {
namespace {

// Adds tokens, which are sorted in place, in one pass over the counts.
void AddTokenCounts(std::vector<uint32_t>& tokens, TokenCounts& counts) {
  std::sort(tokens.begin(), tokens.end());
  TokenCounts sum;
  auto old = counts.begin();
  for (auto at = tokens.begin(); at != tokens.end();) {
    const uint32_t id = *at;
    const auto end = std::upper_bound(at, tokens.end(), id);
    while (old != counts.end() && old->first < id) sum.push_back(*old++);
    const uint32_t before = old != counts.end() && old->first == id ? (old++)->second : 0;
    sum.emplace_back(id, before + static_cast<uint32_t>(end - at));
    at = end;
  }
  sum.insert(sum.end(), old, counts.end());
  counts = std::move(sum);
}

}  // namespace

StatisticsCollector::StatisticsCollector(const ModelIdentity& model, std::optional<uint32_t> bos)
    : statistics_(EmptyStatistics(model)), window_(bos) {}

void StatisticsCollector::StartSession(const std::string& name, const std::string& bucket,
                                       const std::string& executor, const std::string& precision) {
  StartWindow();
  session_start_ = before_;
  statistics_.sessions.push_back({name, bucket, executor, precision, {}, {}});
}

void StatisticsCollector::StartWindow() {
  before_ += window_.size();
  window_.Start();
}

void StatisticsCollector::Feeding(Phase phase, std::span<const uint32_t> tokens) {
  phase_ = phase;
  if (moments_ != nullptr) moments_->Count(phase == Phase::kPrefill);
  PhaseTally& tally = statistics_.sessions.back().phases[static_cast<size_t>(phase)];
  if (tally.layers.empty()) {
    for (const MoeLayerShape& layer : statistics_.model.layers) {
      tally.layers.emplace_back(layer.expert_count);
    }
  }
  uint32_t position = window_.size();
  window_.Add(tokens);
  std::vector<uint32_t> counted;
  for (const uint32_t token : tokens) {
    const bool sink = window_.IsSink(position++);
    ++(sink ? tally.sinks : tally.tokens);
    if (!sink && phase == Phase::kPrefill) counted.push_back(token);
  }
  AddTokenCounts(counted, statistics_.sessions.back().token_counts);
}

// The layer's place in the list is searched for each batch; layers are few.
void StatisticsCollector::Observe(const RoutedBatch& batch) {
  const auto& layers = statistics_.model.layers;
  const auto found = std::lower_bound(
      layers.begin(), layers.end(), batch.layer,
      [](const MoeLayerShape& shape, uint32_t layer) { return shape.layer < layer; });
  if (found == layers.end() || found->layer != batch.layer) return;
  if (trace_ != nullptr) Trace(batch);
  const size_t index = static_cast<size_t>(found - layers.begin());
  PhaseTally& tally = statistics_.sessions.back().phases[static_cast<size_t>(phase_)];
  for (uint32_t token = 0; token < batch.tokens; ++token) {
    Count(batch, token, tally.layers[index]);
    if (window_.IsSink(batch.first_position + token)) continue;
    CountPairs(batch.chosen[token], batch.expert_count, statistics_.co_selection[index]);
  }
}

void StatisticsCollector::Trace(const RoutedBatch& batch) {
  TraceStep step;
  step.turn = static_cast<uint32_t>(statistics_.sessions.size() - 1);
  step.phase = phase_;
  const uint64_t first = before_ - session_start_ + batch.first_position;
  for (uint32_t token = 0; token < batch.tokens; ++token) {
    step.position = static_cast<uint32_t>(first + token);
    trace_->Add(step, batch.layer, batch.chosen[token].ids, batch.chosen[token].weights);
  }
}

void StatisticsCollector::Count(const RoutedBatch& batch, uint32_t token, LayerTally& layer) const {
  const Selection& chosen = batch.chosen[token];
  const uint32_t position = batch.first_position + token;
  const bool odd = (before_ + position) / kRunTokens % 2 != 0;
  const size_t first = token * chosen.ids.size();
  for (size_t rank = 0; rank < chosen.ids.size(); ++rank) {
    ExpertTally& expert = layer[chosen.ids[rank]];
    expert.peak = std::max(expert.peak, batch.output_peaks[first + rank]);
    if (window_.IsSink(position)) continue;
    const double gate = chosen.weights[rank];
    ++expert.count;
    expert.gate_mass += gate;
    if (odd) expert.odd_gate_mass += gate;
    expert.weighted_norm += gate * batch.output_norms[first + rank];
  }
}

void StatisticsCollector::CountPairs(const Selection& chosen, uint32_t expert_count,
                                     std::vector<uint64_t>& pairs) const {
  for (size_t a = 0; a < chosen.ids.size(); ++a) {
    for (size_t b = a + 1; b < chosen.ids.size(); ++b) {
      const auto [low, high] = std::minmax(chosen.ids[a], chosen.ids[b]);
      ++pairs[PairIndex(low, high, expert_count)];
    }
  }
}

}  // namespace moepack::runtime
