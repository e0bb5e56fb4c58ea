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

class StatisticsCollector::SlotObserver : public RoutingObserver {
 public:
  SlotObserver(StatisticsCollector& collector, size_t slot) : collector_(collector), slot_(slot) {}
  bool wants_outputs() const override { return true; }
  void Observe(const RoutedBatch& batch) override { collector_.Observe(batch, slot_); }

 private:
  StatisticsCollector& collector_;
  size_t slot_;
};

StatisticsCollector::StatisticsCollector(const ModelIdentity& model, std::optional<uint32_t> bos)
    : statistics_(EmptyStatistics(model)), bos_(bos), slots_{Slot(bos)} {}

void StatisticsCollector::Select(size_t slot) {
  while (slots_.size() <= slot) slots_.emplace_back(bos_);
  selected_ = slot;
}

RoutingObserver& StatisticsCollector::ObserverOf(size_t slot) {
  while (observers_.size() <= slot)
    observers_.push_back(std::make_unique<SlotObserver>(*this, observers_.size()));
  return *observers_[slot];
}

void StatisticsCollector::StartSession(const std::string& name, const std::string& bucket,
                                       const std::string& executor, const std::string& precision,
                                       const std::string& tokens_digest) {
  session_start_ = total_;
  statistics_.sessions.push_back({name, bucket, executor, precision, {}, {}, tokens_digest});
  StartWindow();
}

void StatisticsCollector::StartWindow() {
  Slot& slot = slots_[selected_];
  slot.session = statistics_.sessions.size() - 1;
  slot.before = total_;
  slot.session_start = session_start_;
  slot.tokens.Start();
}

void StatisticsCollector::Feeding(Phase phase, std::span<const uint32_t> tokens) {
  Slot& slot = slots_[selected_];
  SessionTally& session = statistics_.sessions[slot.session];
  slot.phase = phase;
  if (moments_ != nullptr) moments_->Count(phase == Phase::kPrefill);
  total_ += tokens.size();
  PhaseTally& tally = session.phases[static_cast<size_t>(phase)];
  if (tally.layers.empty()) {
    for (const MoeLayerShape& layer : statistics_.model.layers) {
      tally.layers.emplace_back(layer.expert_count);
    }
  }
  uint32_t position = slot.tokens.size();
  slot.tokens.Add(tokens);
  std::vector<uint32_t> counted;
  for (const uint32_t token : tokens) {
    const bool sink = slot.tokens.IsSink(position++);
    ++(sink ? tally.sinks : tally.tokens);
    if (!sink && phase == Phase::kPrefill) counted.push_back(token);
  }
  AddTokenCounts(counted, session.token_counts);
}

// The layer's index in the list is searched for each batch, because there are few layers.
void StatisticsCollector::Observe(const RoutedBatch& batch, size_t slot_number) {
  const Slot& slot = slots_[slot_number];
  const auto& layers = statistics_.model.layers;
  const auto found = std::lower_bound(
      layers.begin(), layers.end(), batch.layer,
      [](const MoeLayerShape& shape, uint32_t layer) { return shape.layer < layer; });
  if (found == layers.end() || found->layer != batch.layer) return;
  if (trace_ != nullptr) Trace(batch, slot);
  const size_t index = static_cast<size_t>(found - layers.begin());
  PhaseTally& tally = statistics_.sessions[slot.session].phases[static_cast<size_t>(slot.phase)];
  for (uint32_t token = 0; token < batch.tokens; ++token) {
    Count(batch, token, slot, tally.layers[index]);
    if (slot.tokens.IsSink(batch.first_position + token)) continue;
    CountPairs(batch.chosen[token], batch.expert_count, statistics_.co_selection[index]);
  }
}

void StatisticsCollector::Trace(const RoutedBatch& batch, const Slot& slot) {
  TraceStep step;
  step.turn = static_cast<uint32_t>(slot.session);
  step.phase = slot.phase;
  const uint64_t first = slot.before - slot.session_start + batch.first_position;
  for (uint32_t token = 0; token < batch.tokens; ++token) {
    step.position = static_cast<uint32_t>(first + token);
    trace_->Add(step, batch.layer, batch.chosen[token].ids, batch.chosen[token].weights);
  }
}

void StatisticsCollector::Count(const RoutedBatch& batch, uint32_t token, const Slot& slot,
                                LayerTally& layer) const {
  const Selection& chosen = batch.chosen[token];
  const uint32_t position = batch.first_position + token;
  const bool odd = (slot.before + position) / kRunTokens % 2 != 0;
  const size_t first = token * chosen.ids.size();
  for (size_t rank = 0; rank < chosen.ids.size(); ++rank) {
    ExpertTally& expert = layer[chosen.ids[rank]];
    expert.peak = std::max(expert.peak, batch.output_peaks[first + rank]);
    if (slot.tokens.IsSink(position)) continue;
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
