// What a plan is made from in addition to the model: scores, pins, and how many experts a node may
// hold.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/plan/partition.h"
#include "libshard/plan/plan_steps.h"

namespace moepack {
namespace {

// The names of the files for messages.
std::string NameOfScores(const PlanOptions& options) {
  return options.statistics_files.empty() ? "statistics" : Join(options.statistics_files, ", ");
}

// The scores with layers for multi-token prediction added at 0: runtimes skip them, so no
// statistics have them. Sets of such layers then follow the ids.
ExpertScores WithLayers(const ExpertScores& scores, const std::vector<MoeLayerShape>& added) {
  ExpertScores out = scores;
  out.layers.insert(out.layers.end(), added.begin(), added.end());
  std::sort(out.layers.begin(), out.layers.end(),
            [](const auto& a, const auto& b) { return a.layer < b.layer; });
  for (size_t i = 0; i < out.layers.size(); ++i) {
    const MoeLayerShape& layer = out.layers[i];
    if (std::find(added.begin(), added.end(), layer) == added.end()) continue;
    const auto at = static_cast<std::ptrdiff_t>(out.Offset(i));
    for (SessionScores& session : out.sessions)
      session.scores.insert(session.scores.begin() + at, layer.expert_count, 0.0f);
    if (!out.co_selection.empty())
      out.co_selection.emplace(out.co_selection.begin() + static_cast<std::ptrdiff_t>(i),
                               PairCount(layer.expert_count));
  }
  return out;
}

std::shared_ptr<const ExpertScores> ScoresFor(const MoeModel& model,
                                              const std::shared_ptr<const ExpertScores>& scores) {
  std::vector<MoeLayerShape> added;
  for (const MoeLayer& layer : model.layers()) {
    const bool known =
        std::any_of(scores->layers.begin(), scores->layers.end(),
                    [&](const MoeLayerShape& shape) { return shape.layer == layer.layer; });
    if (layer.mtp && !known) added.push_back({layer.layer, layer.expert_count, layer.top_k});
  }
  if (added.empty()) return scores;
  return std::make_shared<const ExpertScores>(WithLayers(*scores, added));
}

Status CheckEveryLayerScored(const std::string& where, const ExpertScores& scores) {
  const std::vector<double> sums = SumOfScores(scores);
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    const auto first = sums.begin() + static_cast<std::ptrdiff_t>(scores.Offset(i));
    const auto end = first + scores.layers[i].expert_count;
    if (std::any_of(first, end, [](double sum) { return sum > 0; })) continue;
    return Error{Code::kCorrupt,
                 Cat(where, ": layer ", scores.layers[i].layer,
                     ": scores: expected one above 0, found none"),
                 "nothing is known of this layer: profile all layers"};
  }
  return Ok();
}

// A source that does not count tokens has 0.
Status CheckEnoughTokens(const std::string& where, const ExpertScores& scores) {
  uint64_t tokens = 0;
  for (const SessionScores& session : scores.sessions) tokens += session.tokens;
  const auto largest = std::max_element(
      scores.layers.begin(), scores.layers.end(),
      [](const auto& a, const auto& b) { return a.expert_count < b.expert_count; });
  // With fewer tokens than experts most scores are 0, and a plan would follow the ids.
  if (tokens == 0 || tokens >= largest->expert_count) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(where, ": tokens: expected at least ", largest->expert_count,
                   ", the experts of layer ", largest->layer, ", found ", tokens),
               "profile more text"};
}

Status CheckSuperExperts(const std::string& where, const ExpertScores& scores,
                         const LayerCounts& layers) {
  for (const auto& [layer, ids] : scores.super_experts) {
    const auto count = layers.find(layer);
    for (const uint32_t id : ids) {
      if (count != layers.end() && id < count->second) continue;
      return Error{Code::kCorrupt, Cat(where, ": Super Experts: layer ", layer,
                                       ": expected an expert of the model, found ", id)};
    }
  }
  return Ok();
}

// {"layers": {"*": "3,97"}}; a "version", as overlay files have one, is ignored.
Result<LayerExperts> ReadPins(const std::string& path, const LayerCounts& layers) {
  SHARD_TRY(const Json document, ReadJsonFile(path));
  SHARD_CHECK(CheckMembers(path, document, {"version", "layers"}));
  const JsonFields fields(document, path);
  SHARD_TRY(const Json* by_layer, fields.Object("layers"));
  SHARD_TRY(LayerExperts pins, LayerExpertsFromJson(Cat(path, ": layers"), *by_layer, layers));
  if (CountIds(pins) == 0) return fields.Wrong("layers", "at least one expert id");
  return pins;
}

Result<LayerExperts> PinnedExperts(const PlanOptions& options, const Plan& plan) {
  LayerExperts pinned;
  if (!options.pin_file.empty()) {
    SHARD_TRY(pinned, AsUserMistake(ReadPins(options.pin_file, plan.layers)));
  }
  if (options.pin_super) {
    for (auto [layer, ids] : options.scores->super_experts) {
      std::sort(ids.begin(), ids.end());
      ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
      pinned[layer] = Union(pinned[layer], ids);
    }
  }
  // The overlay is on every node already; pinned again it would take room twice.
  for (auto& [layer, ids] : pinned) ids = Difference(ids, IdsOf(OverlayExperts(plan), layer));
  std::erase_if(pinned, [](const auto& entry) { return entry.second.empty(); });
  return pinned;
}

uint32_t EqualPart(uint32_t expert_count, uint32_t groups) {
  return expert_count / groups + (expert_count % groups > 0 ? 1 : 0);
}

// Without --eligible a group holds as many experts as an equal share.
uint32_t RoomOf(const PlanOptions& options, const Plan& plan, uint32_t layer) {
  const uint32_t expert_count = plan.layers.at(layer);
  const auto overlay = static_cast<uint32_t>(RoomOfOverlay(options, plan, layer));
  uint32_t part = EqualPart(expert_count, options.groups);
  for (const auto& [other, count] : plan.layers) {
    // A runtime with one expert_count for all layers needs the room of the largest layer in each.
    if (options.uniform) part = std::max(part, EqualPart(count, options.groups));
  }
  const uint32_t eligible = std::min(options.eligible.value_or(part + overlay), expert_count);
  return eligible - std::min(overlay, eligible);
}

}  // namespace

Result<PlanBasis> BasisOf(const MoeModel& model, const PlanOptions& options, const Plan& plan) {
  if (!options.scores) return PlanBasis();
  const std::string where = NameOfScores(options);
  SHARD_CHECK(CheckExpertScores(where, *options.scores));
  SHARD_CHECK(CheckEveryLayerScored(where, *options.scores));
  PlanBasis basis;
  basis.scores = ScoresFor(model, options.scores);
  const ExpertScores& scores = *basis.scores;
  SHARD_CHECK(CheckScoresFit(where, scores, plan.layers));
  SHARD_CHECK(CheckEnoughTokens(where, scores));
  SHARD_CHECK(CheckSuperExperts(where, scores, plan.layers));
  basis.split = SplitSessions(scores, options.held_out);
  SHARD_TRY(basis.pinned, PinnedExperts(options, plan));
  return basis;
}

const LayerExperts& OverlayExperts(const Plan& plan) {
  static const LayerExperts kNone;
  const OverlayPlan* overlay = plan.current_overlay();
  return overlay == nullptr ? kNone : overlay->experts_by_layer;
}

size_t RoomOfOverlay(const PlanOptions& options, const Plan& plan, uint32_t layer) {
  const LayerExperts& experts_by_layer = OverlayExperts(plan);
  if (!options.uniform) return IdsOf(experts_by_layer, layer).size();
  size_t most = 0;
  for (const auto& [other, ids] : experts_by_layer) most = std::max(most, ids.size());
  return most;
}

Status CheckEligible(const PlanOptions& options, const Plan& plan, bool by_scores) {
  if (!options.eligible || !options.uniform) return Ok();
  for (const auto& [layer, expert_count] : plan.layers) {
    if (*options.eligible <= expert_count) continue;
    return Error{Code::kInvalidArgument,
                 Cat("plan: layer ", layer, ": eligible experts: expected at most ", expert_count,
                     ", all that the layer has, found ", *options.eligible),
                 by_scores ? "lower --eligible, or use --no-uniform" : "lower --eligible"};
  }
  return Ok();
}

std::vector<std::vector<uint32_t>> RoomsOf(const PlanOptions& options, const Plan& plan) {
  if (!options.rooms.empty()) return options.rooms;
  std::vector<uint32_t> rooms;
  for (const auto& [layer, expert_count] : plan.layers)
    rooms.push_back(RoomOf(options, plan, layer));
  return std::vector<std::vector<uint32_t>>(options.groups, rooms);
}

namespace {

struct Candidate {
  const SessionScores* session;
  std::string digest;  // of the name
  size_t place;
};

bool Precedes(const Candidate& a, const Candidate& b) {
  return std::tie(a.session->bucket, a.digest, a.session->scores) <
         std::tie(b.session->bucket, b.digest, b.session->scores);
}

bool HasScore(const SessionScores& session) {
  return std::any_of(session.scores.begin(), session.scores.end(),
                     [](float score) { return score > 0; });
}

}  // namespace

SessionSplit SplitSessions(const ExpertScores& scores, uint32_t per_mille) {
  std::vector<Candidate> order;
  for (size_t place = 0; place < scores.sessions.size(); ++place) {
    const SessionScores& session = scores.sessions[place];
    if (HasScore(session))
      // The digest mixes the sessions of a bucket without a random number: names often ascend by
      // time or topic.
      order.push_back({&session, Xxh3Hex(std::as_bytes(std::span(session.name))), place});
  }
  std::sort(order.begin(), order.end(), Precedes);
  SessionSplit split;
  for (uint64_t i = 0; i < order.size(); ++i) {
    // True where the running share passes a whole number, which spreads the sessions that are held
    // out evenly over the sorted order and so over the buckets.
    const bool taken = (i + 1) * per_mille / 1000 > i * per_mille / 1000;
    (taken ? split.held_out : split.training).push_back(order[i].place);
  }
  std::sort(split.training.begin(), split.training.end());
  std::sort(split.held_out.begin(), split.held_out.end());
  return split;
}

}  // namespace moepack
