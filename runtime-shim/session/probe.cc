#include "runtime-shim/session/probe.h"

#include <algorithm>
#include <numeric>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

double GateSum(const std::vector<float>& gates, const std::vector<uint32_t>& ids) {
  double sum = 0;
  for (const uint32_t id : ids) sum += gates[id];
  return sum;
}

ExpertIds AllIds(uint32_t expert_count) {
  ExpertIds ids(expert_count);
  std::iota(ids.begin(), ids.end(), 0u);
  return ids;
}

}  // namespace

Result<std::vector<double>> GateShares(std::span<const float> logits,
                                       std::span<const float> selection_bias, const Routing& spec,
                                       const std::vector<ExpertIds>& eligible) {
  SHARD_TRY(const Selection wish,
            SelectExperts(logits, selection_bias, spec, AllIds(spec.expert_count)));
  const std::vector<float> gates = GateValues(logits, spec);
  const double whole = GateSum(gates, wish.ids);
  std::vector<double> shares;
  for (const ExpertIds& ids : eligible) {
    Result<Selection> choice = SelectExperts(logits, selection_bias, spec, ids);
    // A router that first chooses groups of experts may choose only groups with too few eligible
    // experts. The node then captures nothing, and that is not an error.
    const bool cut_groups =
        spec.groups > 1 && ids.size() >= spec.top_k && ids.back() < spec.expert_count;
    if (!choice && !cut_groups) return std::move(choice).error();
    const double share = choice ? GateSum(gates, choice->ids) : 0;
    // Sigmoids of very negative logits may all be 0, and 0 / 0 is not a share.
    shares.push_back(whole > 0 ? std::min(1.0, share / whole) : 0.0);
  }
  return shares;
}

GroupScores::GroupScores(const Model& model, const std::vector<LayerExperts>& eligible,
                         uint32_t moe_layers)
    : sums_(eligible.size()) {
  for (const auto& [layer, expert_count] : model.weights().moe_layers) {
    if (layer >= model.spec().layers) break;  // blocks for multi-token prediction
    if (moe_layers != 0 && layers_.size() == moe_layers) break;
    if (model.spec().layer[layer].routes_by_table) continue;  // every group has all of its experts
    Layer& counted = layers_[layer];
    counted.router = model.spec().layer[layer].router;
    for (const LayerExperts& group : eligible)
      counted.eligible.push_back(moepack::IdsOf(group, layer));
  }
}

uint32_t GroupScores::layers() const { return layers_.empty() ? 1 : layers_.rbegin()->first + 1; }

void GroupScores::Observe(const RoutedBatch& batch) {
  const auto layer = layers_.find(batch.layer);
  if (layer == layers_.end() || !status_) return;
  status_ = Add(batch, layer->second);
}

Status GroupScores::Add(const RoutedBatch& batch, const Layer& layer) {
  for (uint32_t token = batch.first_position == 0 ? 1 : 0; token < batch.tokens; ++token) {
    const auto logits =
        batch.logits.subspan(size_t{token} * batch.expert_count, batch.expert_count);
    SHARD_TRY(const std::vector<double> shares,
              GateShares(logits, batch.selection_bias, layer.router, layer.eligible));
    for (size_t group = 0; group < shares.size(); ++group) sums_[group] += shares[group];
    ++samples_;
  }
  return Ok();
}

Result<std::vector<double>> GroupScores::Scores() const {
  SHARD_CHECK(status_);
  if (samples_ == 0)
    return Error{Code::kInvalidArgument, "prompt: expected at least 2 tokens, found 1",
                 "position 0 says nothing about the text, so scoring groups takes one more"};
  std::vector<double> scores;
  for (const double sum : sums_) scores.push_back(sum / static_cast<double>(samples_));
  return scores;
}

}  // namespace moepack::runtime
