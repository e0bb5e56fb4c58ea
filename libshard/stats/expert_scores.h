// What a planner knows about a model's routing, whoever measured it: one score per session, layer
// and expert. It is read from statistics of `profile` or imported from the files of other tools.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/stats/statistics.h"

namespace moepack {

// What a score adds up over the tokens that chose the expert. A file may have more than one; the
// reader takes the last of these that exists, because it predicts damage best (docs/planning.md).
enum class ScoreBasis : uint8_t {
  kCount,         // 1
  kGateMass,      // the applied gate
  kWeightedNorm,  // gate x norm of the expert's output (REAP's sum)
};
inline constexpr std::array kScoreBasisNames = {"count", "gate", "reap"};

// The scores of one session, or of everything in a source that does not separate sessions.
struct SessionScores {
  std::string name, bucket;  // may be empty
  uint64_t tokens = 0;       // counted; 0 if the source does not say
  // All layers one after another, in the order of ExpertScores::layers: the score of expert e of
  // layer i is at ExpertScores::Offset(i) + e. Finite and not negative.
  std::vector<float> scores;
  // Token ids, ascending, and how often the session has each; empty if the source does not say.
  TokenCounts token_counts = {};
  std::string tokens_digest = {};  // as SessionTally has it
  bool operator==(const SessionScores&) const = default;
};

struct ExpertScores {
  std::string format;         // of the source: "moepack-statistics", "imatrix", "hot-cache", ...
  std::string digest;         // XXH3-128 of the files' bytes, 32 hexadecimal digits
  std::string router_digest;  // as ModelIdentity::router_digest; "" if the source does not say
  ScoreBasis basis = ScoreBasis::kCount;
  // Ascending by layer. top_k is 0 if the source does not say.
  std::vector<MoeLayerShape> layers;
  std::vector<SessionScores> sessions;  // at least one
  // For each layer, at PairIndex(i, j, E), how many tokens chose i and j together; empty if the
  // source does not say.
  std::vector<std::vector<uint64_t>> co_selection;
  // Experts whose outputs stand out (see SuperExpert in summary.h); empty if unknown.
  LayerExperts super_experts;
  // The source ranks ids over all layers together, which means little: a weak prior.
  bool layer_agnostic = false;
  // What was repaired or is doubtful, as sentences for the user.
  std::vector<std::string> warnings;

  // The index of the layer's first expert in SessionScores::scores. REQUIRES: index <=
  // layers.size().
  size_t Offset(size_t index) const;
  bool operator==(const ExpertScores&) const = default;
};

// Takes the scores of `basis` from statistics; prefill and decode are added up. Without `basis` it
// takes kWeightedNorm if any is recorded, otherwise kGateMass.
ExpertScores ScoresFromStatistics(const Statistics& statistics, std::optional<ScoreBasis> basis);

// The scores of one session; `shape` determines layers and basis. REQUIRES: a session of these
// layers.
SessionScores ScoresOfSession(const SessionTally& session, const ExpertScores& shape);

// Checks that layers ascend, sessions have all scores, and every score is finite and not negative.
// kCorrupt names `where`, session, layer and expert.
Status CheckExpertScores(const std::string& where, const ExpertScores& scores);

// Checks that the scores are for a model with these layers: every layer of `layers` exists with as
// many experts. kMismatch names `where`, the layer, and both numbers. Layers of `scores` that the
// model does not have are refused, too.
Status CheckScoresFit(const std::string& where, const ExpertScores& scores,
                      const LayerCounts& layers);

// Checks that statistics whose router digest is `measured` were measured on `model`, whose digest
// is `expected`: kMismatch if they differ. Returns "", or a warning that nothing was checked
// because `expected` is "" (unknown). Formats of other tools have no digest (`measured` is ""), so
// there is nothing to check or warn about.
Result<std::string> CheckRouters(const std::string& where, const std::string& measured,
                                 const std::string& model, const std::string& expected);

// Returns the sum over all sessions (or those of `sessions`, by index), concatenated as in
// SessionScores::scores. Added in doubles, in the order of the sessions.
std::vector<double> SumOfScores(const ExpertScores& scores);
std::vector<double> SumOfScores(const ExpertScores& scores, const std::vector<size_t>& sessions);

}  // namespace moepack
