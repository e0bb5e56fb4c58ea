#include "libshard/strategies/session_shares.h"

#include <algorithm>
#include <tuple>

#include "libshard/base/parallel.h"

namespace moepack {
namespace {

double SumOfLayer(std::span<const float> scores) {
  double sum = 0;
  for (const float score : scores) sum += score;
  return sum;
}

double CaptureOfSession(const SessionShares& shares, size_t session,
                        const std::vector<ExpertIds>& held) {
  double captured = 0;
  for (size_t layer = 0; layer < shares.layer_count(); ++layer) {
    const std::span<const float> scores = shares.Scores(session, layer);
    double sum = 0;
    for (const uint32_t id : held[layer]) sum += scores[id];
    captured += sum * shares.PerScore(session, layer);
  }
  const size_t seen = shares.LayersSeen(session);
  // Layers count equally, because a token passes through all of them.
  return seen == 0 ? 0 : captured / static_cast<double>(seen);
}

}  // namespace

SessionShares::SessionShares(const ExpertScores& scores, std::vector<size_t> sessions)
    : scores_(&scores), sessions_(std::move(sessions)) {
  offsets_ = {0};
  for (const MoeLayerShape& layer : scores.layers)
    offsets_.push_back(offsets_.back() + layer.expert_count);
  for (size_t session = 0; session < session_count(); ++session) {
    for (size_t layer = 0; layer < layer_count(); ++layer) {
      const double sum = SumOfLayer(Scores(session, layer));
      per_score_.push_back(sum > 0 ? 1 / sum : 0);
    }
  }
}

std::span<const float> SessionShares::Scores(size_t session, size_t layer) const {
  return std::span(scores_->sessions[sessions_[session]].scores)
      .subspan(offsets_[layer], expert_count(layer));
}

size_t SessionShares::LayersSeen(size_t session) const {
  const auto first = per_score_.begin() + static_cast<std::ptrdiff_t>(session * layer_count());
  return layer_count() - static_cast<size_t>(std::count(
                             first, first + static_cast<std::ptrdiff_t>(layer_count()), 0.0));
}

std::vector<size_t> InCanonicalOrder(const ExpertScores& scores, std::vector<size_t> sessions) {
  // Sums of floats and ties depend on the order of sessions, and the order in the file must not
  // decide them.
  std::sort(sessions.begin(), sessions.end(), [&](size_t a, size_t b) {
    const SessionScores &one = scores.sessions[a], &other = scores.sessions[b];
    return std::tie(one.name, one.bucket, one.scores) <
           std::tie(other.name, other.bucket, other.scores);
  });
  return sessions;
}

Result<std::vector<std::vector<double>>> SumShares(const SessionShares& shares,
                                                   const std::vector<uint32_t>& group_of_session,
                                                   size_t groups) {
  std::vector<std::vector<double>> sums(groups, std::vector<double>(shares.width()));
  // Threads share out layers, not sessions, so every sum adds the sessions in one order.
  const auto add_layer = [&](size_t layer) -> Status {
    for (size_t session = 0; session < shares.session_count(); ++session) {
      double* const sum = sums[group_of_session[session]].data() + shares.offset(layer);
      const std::span<const float> scores = shares.Scores(session, layer);
      const double per_score = shares.PerScore(session, layer);
      for (size_t id = 0; id < scores.size(); ++id) sum[id] += scores[id] * per_score;
    }
    return CheckInterrupt();
  };
  SHARD_CHECK(ParallelFor(shares.layer_count(), 0, add_layer));
  return sums;
}

Result<std::vector<double>> CaptureBySessionAndGroup(const SessionShares& shares,
                                                     const HeldSets& held) {
  std::vector<double> captures(shares.session_count() * held.size());
  const auto capture_of = [&](size_t session) -> Status {
    for (size_t group = 0; group < held.size(); ++group)
      captures[session * held.size() + group] = CaptureOfSession(shares, session, held[group]);
    return CheckInterrupt();
  };
  SHARD_CHECK(ParallelFor(shares.session_count(), 0, capture_of));
  return captures;
}

ExpertIds BestExperts(std::span<const double> values, std::span<const double> otherwise,
                      size_t room, const ExpertIds& pinned, const ExpertIds& barred) {
  ExpertIds free;
  for (uint32_t id = 0; id < values.size(); ++id) {
    if (!Contains(pinned, id) && !Contains(barred, id)) free.push_back(id);
  }
  const size_t wanted = std::min(room - std::min(room, pinned.size()), free.size());
  const auto better = [&](uint32_t a, uint32_t b) {
    // The values are crossed over and the ids are not: values descend while ids ascend.
    return std::tuple(values[b], otherwise[b], a) < std::tuple(values[a], otherwise[a], b);
  };
  std::partial_sort(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(wanted), free.end(),
                    better);
  free.resize(wanted);
  std::sort(free.begin(), free.end());
  return Union(free, pinned);
}

}  // namespace moepack
