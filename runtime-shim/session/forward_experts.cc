// The block of experts. The router's logits are read back, experts are chosen on the host
// (router.h), and each chosen expert runs on the rows of the tokens that picked it. Experts run in
// ascending id, so that sums are added in the same order on every node.
#include <algorithm>

#include "libshard/base/text/text.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

namespace {

// Where a choice of a row, row * top_k + rank, is among the rows of its expert. A table of ids may
// name an expert twice.
struct Place {
  size_t choice = 0, index = 0;
};
using Places = std::vector<Place>;

// The experts that were picked, in ascending id, and their positions.
struct Picked {
  std::vector<ExpertRows> experts;
  std::vector<Places> places;
};

// Segments of different groups of a refitted distribution have different experts with the same id.
Picked PickedOf(std::span<const Segment> segments, uint32_t layer,
                std::span<const Selection> chosen) {
  struct Expert {
    ExpertRows rows;
    Places places;
  };
  std::vector<std::vector<Expert>> by_id(segments.front().eligible->tables[layer].size());
  auto segment = segments.begin();
  for (uint32_t row = 0; row < chosen.size(); ++row) {
    while (row >= segment->first_row + segment->count()) ++segment;
    const LayerExpertTable& table = segment->eligible->tables[layer];
    const Selection& own = chosen[row];
    for (size_t rank = 0; rank < own.ids.size(); ++rank) {
      std::vector<Expert>& same_id = by_id[own.ids[rank]];
      auto expert = std::find_if(same_id.begin(), same_id.end(), [&](const Expert& one) {
        return one.rows.weights == table[own.ids[rank]];
      });
      if (expert == same_id.end()) {
        expert = same_id.insert(expert, Expert{});
        expert->rows.weights = table[own.ids[rank]];
      }
      const float gate = own.weights[rank] * expert->rows.weights->output_scale;
      ExpertRows& rows = expert->rows;
      if (!rows.rows.empty() && rows.rows.back() == row) {
        rows.gates.back() += gate;
      } else {
        rows.rows.push_back(row);
        rows.gates.push_back(gate);
      }
      expert->places.push_back({row * own.ids.size() + rank, rows.rows.size() - 1});
    }
  }
  Picked picked;
  for (std::vector<Expert>& same_id : by_id) {
    for (Expert& expert : same_id) {
      picked.experts.push_back(std::move(expert.rows));
      picked.places.push_back(std::move(expert.places));
    }
  }
  return picked;
}

}  // namespace

void Forward::ProjectRouters(const Rows& logits) {
  const auto own_router = [&](const Segment& segment) {
    return segment.eligible->RouterOf(layer_) != nullptr;
  };
  // One product for all segments decodes the weights once.
  if (std::none_of(segments_.begin(), segments_.end(), own_router))
    return executor_.Project(weights_->router, Now(scratch_.normed), logits);
  for (const Segment& segment : segments_) {
    const RouterWeights* own = segment.eligible->RouterOf(layer_);
    executor_.Project(own != nullptr ? own->rows : weights_->router, Own(scratch_.normed, segment),
                      Own(logits, segment));
  }
}

std::span<const float> Forward::SelectionBiasOf(const Segment& segment) const {
  const RouterWeights* own = segment.eligible->RouterOf(layer_);
  return own != nullptr ? own->selection_bias : weights_->selection_bias;
}

std::span<const uint32_t> Forward::ExpertsOfToken(uint32_t token) const {
  const size_t top_k = spec_.layer[layer_].router.top_k;
  return std::span(weights_->expert_table).subspan(token * top_k, top_k);
}

Result<std::vector<Selection>> Forward::Route() {
  const Routing& router = spec_.layer[layer_].router;
  const Rows logits = Now(scratch_.router).Columns(0, router.expert_count);
  ProjectRouters(logits);
  SHARD_CHECK(Mark("router", logits));
  router_logits_.resize(size_t{count_} * router.expert_count);
  SHARD_CHECK(executor_.Read(logits, router_logits_));
  std::vector<Selection> chosen;
  for (const Segment& segment : segments_) {
    const ExpertIds& ids = moepack::IdsOf(segment.eligible->ids, layer_);
    for (uint32_t i = 0; i < segment.count(); ++i) {
      const std::span<const float> own =
          std::span(router_logits_)
              .subspan(chosen.size() * router.expert_count, router.expert_count);
      Result<Selection> selection =
          spec_.layer[layer_].routes_by_table
              ? WeighExperts(own, ExpertsOfToken(segment.tokens[i]), router, ids)
              : SelectExperts(own, SelectionBiasOf(segment), router, ids);
      if (!selection)
        return std::move(selection).error().Within(Cat(model_.weights().path, ": layer ", layer_));
      chosen.push_back(std::move(*selection));
    }
  }
  return chosen;
}

bool Forward::WantsOutputs() const {
  return std::any_of(segments_.begin(), segments_.end(), [](const Segment& segment) {
    return segment.observer != nullptr && segment.observer->wants_outputs();
  });
}

Result<Rows> Forward::PutExpertInputs() {
  const Rows normed = Now(scratch_.normed);
  if (FeedsInParallel()) Norm({weights_->parallel.experts_in, {}}, Now(scratch_.hidden), normed);
  if (RoutesEarly()) Norm(weights_->mlp_norm, Now(scratch_.hidden), normed);
  SHARD_CHECK(Mark("norm before the experts", normed));
  if (!weights_->space_down) return normed;
  const Rows in = Now(scratch_.space_in);
  executor_.MatMul(weights_->space_down, normed, in);
  return in;
}

Rows Forward::ExpertSums() const {
  return Now(weights_->space_up ? scratch_.space_out : scratch_.branch);
}

Status Forward::RunExperts(std::span<const Selection> chosen, const Rows& in) {
  const Picked picked = PickedOf(segments_, layer_, chosen);
  const uint32_t width = spec_.expert_width();
  const ExpertBatch batch = {picked.experts,
                             in,
                             ExpertSums(),
                             spec_.ExpertActivationOf(layer_),
                             spec_.weigh_inputs,
                             Dense(scratch_.expert_in, width),
                             Dense(scratch_.expert_out, width),
                             Now(scratch_.gate),
                             Now(scratch_.up),
                             Dense(scratch_.zeros, width),
                             scratch_.sizes};
  const bool outputs = WantsOutputs();
  OutputSizes sizes;
  // The norm of an output shows whether all its values are finite.
  SHARD_CHECK(executor_.MixExperts(batch, outputs || trace_ ? &sizes : nullptr));
  const size_t top_k = spec_.layer[layer_].router.top_k;
  norms_.assign(outputs ? chosen.size() * top_k : 0, 0);
  peaks_.assign(norms_.size(), 0);
  size_t first = 0;
  for (size_t expert = 0; expert < picked.experts.size(); ++expert) {
    for (const auto& [choice, index] : picked.places[expert]) {
      const size_t at = first + index;
      if (trace_) SHARD_CHECK(CheckFinite("experts", sizes.norms[at], choice / top_k));
      if (outputs) {
        norms_[choice] = sizes.norms[at];
        peaks_[choice] = sizes.peaks[at];
      }
    }
    first += picked.experts[expert].rows.size();
  }
  return Ok();
}

void Forward::Observe(std::span<const Selection> chosen) {
  const uint32_t expert_count = spec_.layer[layer_].router.expert_count;
  const size_t top_k = spec_.layer[layer_].router.top_k;
  for (const Segment& segment : segments_) {
    if (segment.observer == nullptr) continue;
    const uint32_t row = segment.first_row, count = segment.count();
    RoutedBatch batch;
    batch.layer = layer_;
    batch.first_position = segment.past;
    batch.tokens = count;
    batch.expert_count = expert_count;
    batch.logits =
        std::span(router_logits_).subspan(size_t{row} * expert_count, size_t{count} * expert_count);
    batch.selection_bias = SelectionBiasOf(segment);
    batch.chosen = chosen.subspan(row, count);
    batch.by_table = spec_.layer[layer_].routes_by_table;
    if (segment.observer->wants_outputs()) {
      batch.output_norms = std::span(norms_).subspan(row * top_k, count * top_k);
      batch.output_peaks = std::span(peaks_).subspan(row * top_k, count * top_k);
    }
    segment.observer->Observe(batch);
  }
}

void Forward::AddShared() {
  const MlpWeights& shared = weights_->shared;
  if (!shared) return;
  const Rows normed = Now(scratch_.normed), out = Now(scratch_.expert_out);
  executor_.RunMlp(shared, MlpActivation(), normed, {Now(scratch_.gate), Now(scratch_.up), out});
  if (weights_->shared_gate) {
    const Rows gate = Now(scratch_.shared_gate);
    executor_.MatMul(weights_->shared_gate, normed, gate);
    executor_.ScaleBySigmoid(out, gate);
  }
  executor_.Add(Now(scratch_.branch), out, 1);
}

void Forward::RunShared() {
  executor_.Copy(Now(scratch_.zeros), Now(scratch_.branch));
  AddShared();
}

Status Forward::SumExperts() {
  SHARD_CHECK(PutRouterInputs());
  SHARD_TRY(const std::vector<Selection> chosen, Route());
  SHARD_TRY(const Rows in, PutExpertInputs());
  SHARD_CHECK(RunExperts(chosen, in));
  if (!weights_->chunks.empty()) SHARD_CHECK(AddChunks(chosen));
  // A traced pass repeats one that the observer has seen.
  if (!trace_) Observe(chosen);
  return Ok();
}

Status Forward::AddExperts() {
  if (FeedsInParallel()) return AddInParallel();
  const Rows branch = Now(scratch_.branch);
  const Rows sums = ExpertSums();
  if (weights_->space_norm)
    executor_.RmsNorm(sums, {weights_->space_norm, {}, spec_.norm_eps}, sums);
  if (weights_->space_up) executor_.MatMul(weights_->space_up, sums, branch);
  AddShared();
  SHARD_CHECK(Mark("sum of experts", branch));
  AddBranch(spec_.ScaleOfExperts());
  return Ok();
}

}  // namespace moepack::runtime
