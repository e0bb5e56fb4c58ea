// Scores of sessions as shares: what part of a session's score in a layer falls on an expert. Long
// sessions, and layers with large outputs, then weigh no more than others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libshard/strategies/strategy.h"

namespace moepack {

// A view of some sessions of scores, which it borrows. Sessions are numbered as listed in
// `sessions`.
class SessionShares {
 public:
  SessionShares(const ExpertScores& scores, std::vector<size_t> sessions);

  size_t session_count() const { return sessions_.size(); }
  size_t layer_count() const { return offsets_.size() - 1; }
  uint32_t expert_count(size_t layer) const {
    return static_cast<uint32_t>(offsets_[layer + 1] - offsets_[layer]);
  }
  // The index of the layer's first expert among the experts of all layers.
  size_t offset(size_t layer) const { return offsets_[layer]; }
  size_t width() const { return offsets_.back(); }  // experts of all layers

  std::span<const float> Scores(size_t session, size_t layer) const;
  // The factor that turns a score into its share; 0 if the session has no score in the layer.
  double PerScore(size_t session, size_t layer) const {
    return per_score_[session * layer_count() + layer];
  }
  // The layers in which the session has a score.
  size_t LayersSeen(size_t session) const;

 private:
  const ExpertScores* scores_;
  std::vector<size_t> sessions_, offsets_;
  std::vector<double> per_score_;  // by session, then layer
};

// The sessions in an order that does not depend on their original positions: by name, bucket and
// scores.
std::vector<size_t> InCanonicalOrder(const ExpertScores& scores, std::vector<size_t> sessions);

// sums[group][offset(layer) + expert]: the shares of the sessions of each group, added up.
// group_of_session[i] < groups is the group of session i.
Result<std::vector<std::vector<double>>> SumShares(const SessionShares& shares,
                                                   const std::vector<uint32_t>& group_of_session,
                                                   size_t groups);

// captures[session * groups + group]: the mean over layers of the share that falls on what the
// group holds, from 0 to 1. Layers without a score for the session do not count; a session without
// any score has 0.
Result<std::vector<double>> CaptureBySessionAndGroup(const SessionShares& shares,
                                                     const HeldSets& held);

// The `room` best experts of a layer by `values`, ties by `otherwise` and then the lower id,
// including all pinned and no barred ones; ascending.
ExpertIds BestExperts(std::span<const double> values, std::span<const double> otherwise,
                      size_t room, const ExpertIds& pinned, const ExpertIds& barred);

}  // namespace moepack
