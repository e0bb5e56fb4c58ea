// The block of experts. The router's logits are read back, experts are chosen on the host
// (router.h), and each chosen expert runs on the rows of the tokens that picked it. Experts run in
// ascending id, so that sums are added in the same order on every node.
#include <algorithm>
#include <cmath>
#include <set>

#include "libshard/base/text/text.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

namespace {

// The tokens that picked an expert: their rows, the gates that are applied, and the expert's places
// among each token's choices.
struct Users {
  std::vector<uint32_t> rows;
  std::vector<float> gates;
  std::vector<size_t> places;  // row * top_k + rank
};

Users UsersOf(uint32_t id, std::span<const Selection> chosen) {
  Users users;
  for (uint32_t row = 0; row < chosen.size(); ++row) {
    const std::vector<uint32_t>& ids = chosen[row].ids;
    const auto found = std::find(ids.begin(), ids.end(), id);
    if (found == ids.end()) continue;
    const auto rank = static_cast<size_t>(found - ids.begin());
    users.rows.push_back(row);
    users.gates.push_back(chosen[row].weights[rank]);
    users.places.push_back(row * ids.size() + rank);
  }
  return users;
}

// Returns the largest magnitude and the Euclidean norm.
std::pair<float, float> PeakAndNorm(std::span<const float> values) {
  float peak = 0;
  double squares = 0;
  for (const float value : values) {
    peak = std::max(peak, std::abs(value));
    squares += double{value} * value;
  }
  return {peak, static_cast<float>(std::sqrt(squares))};
}

}  // namespace

Result<std::vector<Selection>> Forward::Route() {
  const Routing& router = spec_.layer[layer_].router;
  const Rows logits = Now(scratch_.router).Columns(0, router.expert_count);
  Project(weights_->router, Now(scratch_.normed), logits);
  SHARD_CHECK(Mark("router", logits));
  router_logits_.resize(size_t{count_} * router.expert_count);
  SHARD_CHECK(executor_.Read(logits, router_logits_));
  const ExpertIds& ids = moepack::IdsOf(eligible_.ids, layer_);
  std::vector<Selection> chosen;
  for (uint32_t row = 0; row < count_; ++row) {
    const std::span<const float> own =
        std::span(router_logits_).subspan(size_t{row} * router.expert_count, router.expert_count);
    Result<Selection> selection = SelectExperts(own, weights_->selection_bias, router, ids);
    if (!selection)
      return std::move(selection).error().Within(Cat(model_.weights().path, ": layer ", layer_));
    chosen.push_back(std::move(*selection));
  }
  return chosen;
}

Status Forward::RunExpert(uint32_t id, std::span<const Selection> chosen) {
  const MlpWeights& expert = *eligible_.tables[layer_][id];
  const Users users = UsersOf(id, chosen);
  const auto count = static_cast<uint32_t>(users.rows.size());
  const Rows in = scratch_.expert_in.Slice(0, count), out = scratch_.expert_out.Slice(0, count);
  // Llama-4 multiplies an expert's input by the gate instead of its output.
  static const std::vector<float> kNone;
  executor_.Gather(Now(scratch_.normed), users.rows, spec_.weigh_inputs ? users.gates : kNone, in);
  RunMlp(expert, spec_.expert_activation, in, out);
  SHARD_CHECK(Mark("experts", out));
  const std::vector<float> ones(spec_.weigh_inputs ? count : 0, 1.0f);
  executor_.ScatterAdd(Now(scratch_.branch), users.rows, spec_.weigh_inputs ? ones : users.gates,
                       out);
  if (observer_ == nullptr || !observer_->wants_outputs()) return Ok();
  std::vector<float> values(size_t{count} * spec_.width);
  SHARD_CHECK(executor_.Read(out, values));
  for (uint32_t row = 0; row < count; ++row) {
    const auto [peak, norm] =
        PeakAndNorm(std::span(values).subspan(size_t{row} * spec_.width, spec_.width));
    peaks_[users.places[row]] = peak;
    norms_[users.places[row]] = norm;
  }
  return Ok();
}

void Forward::Observe(std::span<const Selection> chosen) {
  if (observer_ == nullptr) return;
  RoutedBatch batch;
  batch.layer = layer_;
  batch.first_position = past_;
  batch.tokens = count_;
  batch.expert_count = spec_.layer[layer_].router.expert_count;
  batch.logits = router_logits_;
  batch.selection_bias = weights_->selection_bias;
  batch.chosen = chosen;
  batch.output_norms = norms_;
  batch.output_peaks = peaks_;
  observer_->Observe(batch);
}

void Forward::AddShared() {
  const MlpWeights& shared = weights_->shared;
  if (!shared.gate.weight) return;
  const Rows normed = Now(scratch_.normed), out = Now(scratch_.expert_out);
  RunMlp(shared, spec_.activation, normed, out);
  if (weights_->shared_gate) {
    const Rows gate = Now(scratch_.shared_gate);
    executor_.MatMul(weights_->shared_gate, normed, gate);
    executor_.ScaleBySigmoid(out, gate);
  }
  executor_.Add(Now(scratch_.branch), out, 1);
}

Status Forward::MixExperts() {
  SHARD_TRY(const std::vector<Selection> chosen, Route());
  const bool outputs = observer_ != nullptr && observer_->wants_outputs();
  const size_t places = outputs ? size_t{count_} * spec_.layer[layer_].router.top_k : 0;
  norms_.assign(places, 0);
  peaks_.assign(places, 0);
  executor_.Copy(Now(scratch_.zeros), Now(scratch_.branch));
  std::set<uint32_t> used;
  for (const Selection& selection : chosen) used.insert(selection.ids.begin(), selection.ids.end());
  for (const uint32_t id : used) SHARD_CHECK(RunExpert(id, chosen));
  if (!trace_) Observe(chosen);
  AddShared();
  return Mark("sum of experts", Now(scratch_.branch));
}

}  // namespace moepack::runtime
