// Statistics of `moepack profile`. Only one session at a time is in memory beside the scores: the
// scores of 1,000 sessions of 94 layers with 512 experts take 193 MB and their pairs 98 MB, while
// the statistics would take 4 GB.
#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/import/import.h"
#include "libshard/import/score_table.h"
#include "libshard/stats/statistics_file.h"
#include "libshard/stats/summary.h"

namespace moepack {
namespace {

// Turns the parts into scores, and keeps the largest outputs of all sessions for finding Super
// Experts.
class ScoreParts final : public StatisticsParts {
 public:
  ScoreParts(ScoreBasis basis, bool pairs) : pairs_(pairs) { scores_.basis = basis; }

  Status Model(const ModelIdentity& model) override {
    scores_.router_digest = model.router_digest;
    scores_.layers = model.layers;
    for (const MoeLayerShape& layer : model.layers) peaks_.emplace_back(layer.expert_count);
    return Ok();
  }
  Status Session(SessionTally session) override {
    scores_.sessions.push_back(ScoresOfSession(session, scores_));
    for (const PhaseTally& phase : session.phases) {
      for (size_t i = 0; i < phase.layers.size(); ++i) Observe(phase.layers[i], peaks_[i]);
    }
    return Ok();
  }
  Status Pairs(std::vector<uint64_t> counts) override {
    if (pairs_) scores_.co_selection.push_back(std::move(counts));
    return Ok();
  }

  size_t sessions() const { return scores_.sessions.size(); }
  bool has_norms() const { return has_norms_; }
  ExpertScores Take() {
    for (const SuperExpert& expert : FindSuperExperts(scores_.layers, peaks_))
      scores_.super_experts[expert.layer].push_back(expert.expert);
    return std::move(scores_);
  }

 private:
  void Observe(const LayerTally& layer, std::vector<float>& peaks) {
    for (size_t e = 0; e < layer.size(); ++e) {
      peaks[e] = std::max(peaks[e], layer[e].peak);
      has_norms_ = has_norms_ || layer[e].weighted_norm > 0;
    }
  }

  ExpertScores scores_;
  std::vector<std::vector<float>> peaks_;
  bool has_norms_ = false;
  bool pairs_;
};

// Without a requested basis, the scores are based on norms if there are any.
Result<ExpertScores> ReadMoepackStatistics(const ByteSource& file, const ImportOptions& options) {
  ScoreParts parts(options.basis.value_or(ScoreBasis::kWeightedNorm), options.pairs);
  SHARD_CHECK(StreamStatistics(file, parts));
  if (parts.sessions() == 0)
    return Error{Code::kCorrupt, Cat(file.name(), ": sessions: expected at least one, found none")};
  if (parts.has_norms()) return parts.Take();
  if (options.basis == ScoreBasis::kWeightedNorm)
    return WithoutBasis(file.name(), {ScoreBasis::kCount, ScoreBasis::kGateMass}, *options.basis);
  if (options.basis) return parts.Take();
  ScoreParts gates(ScoreBasis::kGateMass, options.pairs);
  SHARD_CHECK(StreamStatistics(file, gates));
  return gates.Take();
}

bool LooksLikeMoepack(std::string_view head) { return JsonHeadHas(head, "\"moepack-statistics\""); }

}  // namespace

constinit const Importer kMoepackImporter = {
    kStatisticsFormat, "statistics of `moepack profile`, JSON or JSON in zstd", LooksLikeMoepack,
    ReadMoepackStatistics, true};

}  // namespace moepack
