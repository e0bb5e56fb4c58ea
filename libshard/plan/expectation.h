// What sessions will find on their node, estimated before a byte is written: the share of a
// session's score, layer by layer, that falls on the experts its node holds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/base/text/json.h"
#include "libshard/stats/expert_scores.h"

namespace moepack {

struct Plan;
struct PlanBasis;

// Captures of sessions, 0 to 1: the mean over layers of the share of the session's score that its
// node holds. All 0 without sessions.
struct CaptureSummary {
  uint64_t sessions = 0;
  double mean = 0, p5 = 0, p25 = 0;
  bool operator==(const CaptureSummary&) const = default;
};

struct LayerConcentration {
  uint32_t layer = 0;
  double top_quarter = 0;  // share of the score on the top quarter of the experts, rounded up
  bool operator==(const LayerConcentration&) const = default;
};

struct PlanExpectation {
  std::string scheme;  // of the plan that was measured

  // The statistics.
  std::string format, digest;  // as ExpertScores has them
  ScoreBasis basis = ScoreBasis::kCount;
  uint64_t sessions = 0, held_out = 0, tokens = 0;        // sessions that made the plan; others
  std::vector<std::pair<std::string, uint64_t>> buckets;  // sessions of each, by name
  std::vector<LayerConcentration> concentration;
  LayerExperts pinned;  // on every node
  // SessionDigest of the sessions, ascending, held out or not: a placement table learns from all.
  // Fewer than there are sessions if the statistics do not name the texts of some.
  std::vector<std::string> texts;

  // Measured on the held-out sessions, each on the node that captures most of it; if none was held
  // out, on those that the plan was made from.
  CaptureSummary overall;
  std::vector<CaptureSummary> groups;  // over the sessions whose best node it is
  // The same sessions at equal sizes: contiguous runs of ids, one set of the most used experts for
  // all nodes, and a separate set for each session, which no plan can beat.
  CaptureSummary contiguous, same, oracle;

  bool operator==(const PlanExpectation&) const = default;
};

// REQUIRES: the plan is complete, and the basis has scores. Numbers are rounded to six digits.
Result<PlanExpectation> ExpectCapture(const Plan& plan, const PlanBasis& basis);

// Captures that beat one set for all by less than this mean that sessions hardly differ.
inline constexpr double kLeastGain = 0.03;

// The member of "calibration" with PlanExpectation::texts.
inline constexpr const char* kCalibrationTexts = "texts";
// As in plan.json: {"scheme", "calibration": {...}, "expected": {...}}. distribution.json has the
// last two as "calibration" and under "quality".
Json ExpectationToJson(const PlanExpectation& expectation);
// The document may be hostile. `groups` and `layers` are those of the plan.
Result<PlanExpectation> ExpectationFromJson(const std::string& where, const Json& document,
                                            size_t groups, const LayerCounts& layers);

}  // namespace moepack
