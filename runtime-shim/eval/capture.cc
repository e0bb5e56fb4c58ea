#include "runtime-shim/eval/capture.h"

#include <iterator>
#include <numeric>

namespace moepack::runtime {

double CapturedShare(const Selection& chosen, const ExpertIds& eligible) {
  double all = 0, captured = 0;
  for (size_t i = 0; i < chosen.ids.size(); ++i) {
    all += chosen.weights[i];
    if (Contains(eligible, chosen.ids[i])) captured += chosen.weights[i];
  }
  // By gates, not by choices: an expert with a small gate is hardly missed.
  return all > 0 ? captured / all : 0;
}

CaptureObserver::CaptureObserver(Teacher teacher, std::vector<const LayerExperts*> masks,
                                 const LayerRouters& routers, std::optional<uint32_t> bos)
    : teacher_(teacher), masks_(std::move(masks)), routers_(routers), window_(bos) {
  for (const auto& [layer, router] : routers) {
    all_[layer].resize(router.expert_count);
    std::iota(all_[layer].begin(), all_[layer].end(), 0u);
  }
  Take();
}

std::vector<LayerCapture> CaptureObserver::Take() {
  std::vector<LayerCapture> taken(masks_.size(), LayerCapture(routers_.size()));
  taken.swap(captures_);
  return taken;
}

void CaptureObserver::Observe(const RoutedBatch& batch) {
  const auto router = routers_.find(batch.layer);
  if (resting_ || router == routers_.end()) return;
  const size_t layer = static_cast<size_t>(std::distance(routers_.begin(), router));
  for (uint32_t token = 0; token < batch.tokens; ++token) {
    // Attention sinks are routed unlike the text, and every session has them.
    if (!window_.IsSink(batch.first_position + token)) ObserveToken(batch, token, layer);
  }
}

void CaptureObserver::ObserveToken(const RoutedBatch& batch, uint32_t token, size_t layer) {
  Selection chosen;
  if (teacher_ == Teacher::kApplied || batch.by_table) {
    chosen = batch.chosen[token];
  } else {
    const auto logits =
        batch.logits.subspan(size_t{token} * batch.expert_count, batch.expert_count);
    auto unmasked =
        SelectExperts(logits, batch.selection_bias, routers_.at(batch.layer), all_.at(batch.layer));
    if (unmasked) chosen = *std::move(unmasked);  // cannot fail for a model that was loaded
  }
  for (size_t mask = 0; mask < masks_.size(); ++mask) {
    const double share = CapturedShare(chosen, moepack::IdsOf(*masks_[mask], batch.layer));
    captures_[mask][layer].push_back(static_cast<float>(share));
  }
}

}  // namespace moepack::runtime
