// The steps of MakePlan, and the rules that they share with CheckPlan. Private to libshard/plan/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/plan/plan.h"
#include "libshard/stats/expert_scores.h"

namespace moepack {

// Which sessions a plan is made from, and which it is measured on.
struct SessionSplit {
  std::vector<size_t> training, held_out;  // indexes into ExpertScores::sessions, ascending
};

// Holds out `per_mille` of every thousand sessions, equally from every bucket: sessions are sorted
// by bucket and digest of name, and (for 200 per mille) every fifth is taken. Names decide, not
// positions, so the same sessions are held out in any order. Sessions without scores are in neither
// part. REQUIRES: per_mille < 1000.
SessionSplit SplitSessions(const ExpertScores& scores, uint32_t per_mille);

// What MakePlan takes from the scores of the options; empty without scores.
struct PlanBasis {
  // Those of the options, with layers for multi-token prediction, which nothing measures, at 0.
  std::shared_ptr<const ExpertScores> scores;
  SessionSplit split;
  LayerExperts pinned;  // held by every group and not in the overlay
};
// Checks that the scores are for this model and say something about each of its layers, splits
// their sessions, and reads what to pin. REQUIRES: layers, top_k and overlay of the plan are set.
Result<PlanBasis> BasisOf(const MoeModel& model, const PlanOptions& options, const Plan& plan);
// kInvalidArgument for options.eligible that some layer cannot reach, if all layers must have
// equally many.
Status CheckEligible(const PlanOptions& options, const Plan& plan, bool by_scores);
// rooms[group][layer] as in PartitionInput: options.rooms, or options.eligible for all, or an equal
// share.
std::vector<std::vector<uint32_t>> RoomsOf(const PlanOptions& options, const Plan& plan);

// Cuts ids into runs whose lengths differ by at most one, the longer ones first, and returns the
// first id of run `group`: 16 in 3 gives 0, 6, 11. For group == groups it returns `expert_count`.
uint32_t RunStart(uint32_t expert_count, uint32_t groups, uint32_t group);

// Sets scheme, groups[].owned and remainder with the partition that the options name. REQUIRES:
// layers, top_k and overlays of the plan are set.
Status PartitionExperts(const PlanOptions& options, const PlanBasis& basis, Plan& plan);
// Adds to groups[].fill so that all groups hold as many experts of every layer as the largest one,
// or `least` if that is more; layers of `whole`, which every group holds whole, do not count.
// Overlays do not matter for this.
Status FillUniformly(Plan& plan, size_t least = 0, const std::set<uint32_t>& whole = {});

// The experts of the current overlay; empty without one.
const LayerExperts& OverlayExperts(const Plan& plan);
// How much of every node's room the current overlay takes: equally much in every layer if counts
// are equal, because nodes are filled up to the layer in which it has the most.
size_t RoomOfOverlay(const PlanOptions& options, const Plan& plan, uint32_t layer);

// True if, with every overlay, all eligible counts are equal.
bool IsUniform(const Plan& plan);
// The overlays of the plan; if it has none, a single null, for the groups alone.
std::vector<const OverlayPlan*> OverlaysOf(const Plan& plan);
// Returns the experts of every layer that no group owns.
LayerExperts Unowned(const Plan& plan);
// Refuses unknown keys in files that users write by hand, because there they are typing mistakes.
// kCorrupt names the key.
Status CheckMembers(const std::string& where, const Json& value,
                    const std::vector<std::string>& allowed);

// These rules hold for any plan; kCorrupt names the broken one. Called before a plan is read,
// because reading expands "*" once per group.
Status CheckGroupCount(const std::string& where, const Plan& plan, size_t groups);
Status CheckOneOwner(const std::string& where, const Plan& plan);
Status CheckEligibleCounts(const std::string& where, const Plan& plan);

// Read and check "stages" of plan.json, which may be absent. The ranges of layers are consecutive,
// start at layer 0 and reach the last layer with experts.
Status ReadStages(const std::string& path, const JsonFields& fields, Plan& plan);
Status CheckStages(const std::string& where, const Plan& plan);

// Turns kCorrupt into kInvalidArgument, because options that do not fit the model are the user's
// mistake, not a corrupt file.
template <class T>
Result<T> AsUserMistake(Result<T> result) {
  if (result) return result;
  Error error = std::move(result).error();
  error.code = Code::kInvalidArgument;
  return error;
}

}  // namespace moepack
