// Order of operations for one token, as llama.cpp and the models' own code have it:
//
//   1  mask        logits of experts that are not eligible become minus infinity
//   2  gate        p = softmax, sigmoid, sqrt(softplus) of the logits, or the logits themselves
//   3  bias        s = p + selection bias; masked experts stay at minus infinity
//   4  groups      score of a routing group = the sum of its two best s, or its best s; only the
//   best
//                  groups stay
//   5  choose      the top_k largest s
//   6  weigh       w = p of the chosen (never s); the "after-topk" gates are applied to them here
//   7  normalise   w / max(sum of w, floor)
//   8  scale
#include "runtime-shim/model/router.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

using Floats = std::vector<float>;
using Gate = void (*)(Floats& values);

void Keep(Floats&) {}

// REQUIRES: at least one finite value. The largest is subtracted, so that exp does not overflow.
void Softmax(Floats& values) {
  const float largest = *std::max_element(values.begin(), values.end());
  float sum = 0;
  for (float& value : values) sum += value = std::exp(value - largest);
  for (float& value : values) value /= sum;
}

void Sigmoid(Floats& values) {
  for (float& value : values) value = 1 / (1 + std::exp(-value));
}

void SqrtSoftplus(Floats& values) {
  // log(1 + exp(x)) in a form that cannot overflow: max(x, 0) + log1p(exp(-|x|)).
  for (float& x : values) x = std::sqrt(std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))));
}

Gate GateOf(Gating gating) {
  switch (gating) {
    case Gating::kSoftmax:
    case Gating::kSoftmaxAfterTopK:
      return Softmax;
    case Gating::kSigmoid:
    case Gating::kSigmoidAfterTopK:
      return Sigmoid;
    case Gating::kSqrtSoftplus:
      break;
  }
  return SqrtSoftplus;
}

// Step 2.
Gate OfAll(const Routing& routing) {
  return moepack::RowOf(routing.gating).after_top_k ? Keep : GateOf(routing.gating);
}

// Step 6.
Gate OfChosen(const Routing& routing) {
  return moepack::RowOf(routing.gating).after_top_k ? GateOf(routing.gating) : Keep;
}

Error Bad(const std::string& thing, const std::string& expected, const std::string& found) {
  return {Code::kInvalidArgument,
          Cat("router: ", thing, ": expected ", expected, ", found ", found)};
}

Status CheckSpec(const Routing& spec) {
  if (spec.top_k == 0) return Bad("experts per token", "at least 1", "0");
  if (spec.groups <= 1) return Ok();
  if (spec.expert_count % spec.groups != 0 || spec.expert_count / spec.groups < 2) {
    return Bad("routing groups", Cat("groups of equal size, at least 2, of ", spec.expert_count),
               Cat(spec.groups));
  }
  if (spec.groups_used == 0 || spec.groups_used > spec.groups) {
    return Bad("routing groups used", Cat("1 to ", spec.groups), Cat(spec.groups_used));
  }
  return Ok();
}

Status CheckEligible(const Routing& spec, const ExpertIds& eligible) {
  const auto unordered =
      std::adjacent_find(eligible.begin(), eligible.end(), std::greater_equal<>());
  if (unordered != eligible.end()) return Bad("eligible experts", "ascending ids", Cat(*unordered));
  if (!eligible.empty() && eligible.back() >= spec.expert_count)
    return Bad("eligible experts", Cat("ids below ", spec.expert_count), Cat(eligible.back()));
  if (eligible.size() >= spec.top_k) return Ok();
  return Bad("eligible experts", Cat("at least ", spec.top_k), Cat(eligible.size()));
}

Status CheckValues(const char* thing, std::span<const float> values, size_t count) {
  if (values.size() != count) return Bad(thing, Cat(count), Cat(values.size()));
  for (const float value : values) {
    if (!std::isfinite(value)) return Bad(thing, "finite numbers", Cat(value));
  }
  return Ok();
}

// Returns the positions of the `count` largest values, best first. The lower position wins a tie.
std::vector<uint32_t> Largest(const Floats& values, size_t count) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
                    [&](uint32_t a, uint32_t b) {
                      return values[a] != values[b] ? values[a] > values[b] : a < b;
                    });
  order.resize(count);
  return order;
}

// Returns the largest score, or the sum of the two largest, which is minus infinity if fewer than
// two experts of the group are eligible.
float ScoreOfGroup(GroupScore kind, std::span<const float> scores) {
  float best = kMasked, second = kMasked;
  for (const float score : scores) {
    second = std::max(second, std::min(best, score));
    best = std::max(best, score);
  }
  return kind == GroupScore::kBest ? best : best + second;
}

void MaskWeakGroups(const Routing& spec, Floats& scores) {
  const size_t size = spec.expert_count / spec.groups;
  Floats group_scores;
  for (size_t group = 0; group < spec.groups; ++group)
    group_scores.push_back(
        ScoreOfGroup(spec.group_score, std::span(scores).subspan(group * size, size)));
  const std::vector<uint32_t> order = Largest(group_scores, group_scores.size());
  for (size_t rank = spec.groups_used; rank < order.size(); ++rank)
    std::fill_n(scores.begin() + static_cast<ptrdiff_t>(order[rank] * size), size, kMasked);
}

// Steps 7 and 8.
void FinishWeights(const Routing& spec, Floats& weights) {
  if (spec.normalize) {
    const float sum = std::accumulate(weights.begin(), weights.end(), 0.0f);
    for (float& weight : weights) weight /= std::max(sum, kLeastWeightSum);
  }
  const float scale = ScaleOf(spec);
  for (float& weight : weights) weight *= scale;
}

}  // namespace

Result<Selection> SelectExperts(std::span<const float> logits,
                                std::span<const float> selection_bias, const Routing& spec,
                                const ExpertIds& eligible) {
  SHARD_CHECK(CheckSpec(spec));
  SHARD_CHECK(CheckEligible(spec, eligible));
  SHARD_CHECK(CheckValues("logits", logits, spec.expert_count));
  if (!selection_bias.empty())
    SHARD_CHECK(CheckValues("selection bias", selection_bias, spec.expert_count));

  Floats probabilities(spec.expert_count, kMasked);
  for (const uint32_t id : eligible) probabilities[id] = logits[id];
  OfAll(spec)(probabilities);

  // Scores start at minus infinity again, because the sigmoid of it is 0, and a bias would bring a
  // masked expert back.
  Floats scores(spec.expert_count, kMasked);
  for (const uint32_t id : eligible)
    scores[id] = probabilities[id] + (selection_bias.empty() ? 0 : selection_bias[id]);
  if (spec.groups > 1) MaskWeakGroups(spec, scores);

  Selection chosen;
  chosen.ids = Largest(scores, spec.top_k);
  if (scores[chosen.ids.back()] == kMasked) {
    const auto left =
        std::count_if(scores.begin(), scores.end(), [](float score) { return score != kMasked; });
    return Bad("eligible experts in the chosen routing groups", Cat("at least ", spec.top_k),
               Cat(left));
  }
  for (const uint32_t id : chosen.ids) chosen.weights.push_back(probabilities[id]);
  OfChosen(spec)(chosen.weights);
  FinishWeights(spec, chosen.weights);
  return chosen;
}

Result<Selection> WeighExperts(std::span<const float> logits, std::span<const uint32_t> ids,
                               const Routing& spec, const ExpertIds& eligible) {
  SHARD_CHECK(CheckSpec(spec));
  SHARD_CHECK(CheckEligible(spec, eligible));
  SHARD_CHECK(CheckValues("logits", logits, spec.expert_count));
  if (ids.size() != spec.top_k) return Bad("chosen experts", Cat(spec.top_k), Cat(ids.size()));
  for (const uint32_t id : ids) {
    if (!Contains(eligible, id)) return Bad("chosen expert", "an eligible one", Cat(id));
  }
  Floats probabilities(spec.expert_count, kMasked);
  for (const uint32_t id : eligible) probabilities[id] = logits[id];
  OfAll(spec)(probabilities);
  Selection chosen;
  chosen.ids.assign(ids.begin(), ids.end());
  for (const uint32_t id : ids) chosen.weights.push_back(probabilities[id]);
  OfChosen(spec)(chosen.weights);
  FinishWeights(spec, chosen.weights);
  return chosen;
}

std::vector<float> GateValues(std::span<const float> logits, const Routing& spec) {
  Floats values(logits.begin(), logits.end());
  OfAll(spec)(values);
  OfChosen(spec)(values);
  return values;
}

}  // namespace moepack::runtime
