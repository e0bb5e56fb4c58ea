#include "libshard/stats/expert_scores.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/stats/summary.h"

namespace moepack {
namespace {

constexpr const char* kOneModel = "statistics belong to one model: profile this one";

double ScoreOf(const ExpertTally& tally, ScoreBasis basis) {
  switch (basis) {
    case ScoreBasis::kCount:
      return static_cast<double>(tally.count);
    case ScoreBasis::kGateMass:
      return tally.gate_mass;
    case ScoreBasis::kWeightedNorm:
      return tally.weighted_norm;
  }
  return 0;
}

bool HasNorms(const Statistics& statistics) {
  for (const SessionTally& session : statistics.sessions) {
    for (const PhaseTally& phase : session.phases) {
      for (const LayerTally& layer : phase.layers) {
        for (const ExpertTally& expert : layer) {
          if (expert.weighted_norm > 0) return true;
        }
      }
    }
  }
  return false;
}

// Scores beyond the range of a float become infinite when converted.
Status CheckSession(const std::string& where, const ExpertScores& scores,
                    const SessionScores& session) {
  const std::string place = Cat(where, ": session ", Quoted(session.name));
  const size_t expected = scores.Offset(scores.layers.size());
  if (session.scores.size() != expected)
    return Error{Code::kCorrupt,
                 Cat(place, ": scores: expected ", expected, ", found ", session.scores.size())};
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    for (uint32_t expert = 0; expert < scores.layers[i].expert_count; ++expert) {
      const float score = session.scores[scores.Offset(i) + expert];
      if (std::isfinite(score) && score >= 0) continue;
      return Error{Code::kCorrupt,
                   Cat(place, ": layer ", scores.layers[i].layer, ": expert ", expert,
                       ": expected a finite score, not negative, found ", score)};
    }
  }
  return Ok();
}

}  // namespace

size_t ExpertScores::Offset(size_t index) const {
  return std::accumulate(
      layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(index), size_t{0},
      [](size_t sum, const MoeLayerShape& layer) { return sum + layer.expert_count; });
}

SessionScores ScoresOfSession(const SessionTally& session, const ExpertScores& shape) {
  SessionScores scores;
  scores.name = session.name;
  scores.bucket = session.bucket;
  scores.token_counts = session.token_counts;
  scores.tokens_digest = session.tokens_digest;
  // Added in doubles and rounded once, so that the order of phases does not show in a float.
  std::vector<double> sums(shape.Offset(shape.layers.size()));
  for (const PhaseTally& phase : session.phases) {
    scores.tokens += phase.tokens;
    for (size_t i = 0; i < phase.layers.size(); ++i) {
      const size_t offset = shape.Offset(i);
      for (size_t e = 0; e < phase.layers[i].size(); ++e)
        sums[offset + e] += ScoreOf(phase.layers[i][e], shape.basis);
    }
  }
  scores.scores.reserve(sums.size());
  for (const double sum : sums) scores.scores.push_back(static_cast<float>(sum));
  return scores;
}

ExpertScores ScoresFromStatistics(const Statistics& statistics, std::optional<ScoreBasis> basis) {
  ExpertScores scores;
  scores.format = "moepack-statistics";
  scores.router_digest = statistics.model.router_digest;
  scores.basis =
      // REAP's sum (arXiv 2510.13999) predicts the damage of a missing expert better than its gates
      // alone, but statistics of other executors may lack the norms.
      basis.value_or(HasNorms(statistics) ? ScoreBasis::kWeightedNorm : ScoreBasis::kGateMass);
  scores.layers = statistics.model.layers;
  for (const SessionTally& session : statistics.sessions)
    scores.sessions.push_back(ScoresOfSession(session, scores));
  scores.co_selection = statistics.co_selection;
  for (const SuperExpert& expert : Summarize(statistics).super_experts)
    scores.super_experts[expert.layer].push_back(expert.expert);
  return scores;
}

Status CheckExpertScores(const std::string& where, const ExpertScores& scores) {
  if (scores.layers.empty())
    return Error{Code::kCorrupt, Cat(where, ": layers: expected at least one, found none")};
  if (scores.sessions.empty())
    return Error{Code::kCorrupt, Cat(where, ": sessions: expected at least one, found none")};
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    const MoeLayerShape& layer = scores.layers[i];
    if (i > 0 && scores.layers[i - 1].layer >= layer.layer)
      return Error{Code::kCorrupt, Cat(where, ": layers: expected ascending numbers, found ",
                                       layer.layer, " after ", scores.layers[i - 1].layer)};
    if (layer.expert_count > 0 && layer.expert_count <= kMaxStatisticsExperts) continue;
    return Error{Code::kCorrupt, Cat(where, ": layer ", layer.layer, ": experts: expected 1 to ",
                                     kMaxStatisticsExperts, ", found ", layer.expert_count)};
  }
  for (const SessionScores& session : scores.sessions)
    SHARD_CHECK(CheckSession(where, scores, session));
  return Ok();
}

Status CheckScoresFit(const std::string& where, const ExpertScores& scores,
                      const LayerCounts& layers) {
  LayerCounts found;
  for (const MoeLayerShape& layer : scores.layers) found[layer.layer] = layer.expert_count;
  for (const auto& [layer, expert_count] : layers) {
    const auto it = found.find(layer);
    if (it == found.end())
      return Error{Code::kMismatch,
                   Cat(where, ": layer ", layer, ": expected ", Plural(expert_count, "expert"),
                       ", found no such layer"),
                   kOneModel};
    if (it->second != expert_count)
      return Error{Code::kMismatch,
                   Cat(where, ": layer ", layer, ": experts: expected ", expert_count, ", found ",
                       it->second),
                   kOneModel};
  }
  for (const auto& [layer, expert_count] : found) {
    if (layers.contains(layer)) continue;
    return Error{Code::kMismatch,
                 Cat(where, ": layer ", layer, ": expected no experts, found ", expert_count),
                 kOneModel};
  }
  return Ok();
}

Result<std::string> CheckRouters(const std::string& where, const std::string& measured,
                                 const std::string& model, const std::string& expected) {
  if (measured.empty() || measured == expected) return std::string();
  // Without the model's routers nothing contradicts the statistics: that is worth a warning, not a
  // refusal.
  if (expected.empty())
    return Cat(where, ": whether it was measured on ", Shown(model),
               " was not checked, because its routers cannot be read here");
  return Error{Code::kMismatch,
               Cat(where, ": router digest: expected ", expected, ", found ", measured), kOneModel};
}

std::vector<double> SumOfScores(const ExpertScores& scores) {
  std::vector<size_t> all(scores.sessions.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return SumOfScores(scores, all);
}

std::vector<double> SumOfScores(const ExpertScores& scores, const std::vector<size_t>& sessions) {
  std::vector<double> sums(scores.Offset(scores.layers.size()));
  for (const size_t index : sessions) {
    const std::vector<float>& session = scores.sessions[index].scores;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += session[i];
  }
  return sums;
}

}  // namespace moepack
