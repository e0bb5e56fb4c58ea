// The steps of MakePlan, and the rules that they share with CheckPlan. Private to libshard/plan/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/plan/plan.h"

namespace moepack {

// Sets scheme, groups[].owned and remainder with the partition that the options name. REQUIRES:
// plan.layers is set.
Status PartitionExperts(const PlanOptions& options, Plan& plan);
// Sets groups[].fill so that all groups hold as many experts of every layer as the largest one.
// Overlays do not matter for it.
Status FillUniformly(Plan& plan);

// True if, with every overlay, all eligible counts are equal.
bool IsUniform(const Plan& plan);
// The overlays of the plan; where it has none, null, for the groups alone.
std::vector<const OverlayPlan*> OverlaysOf(const Plan& plan);
// Returns the experts of every layer that no group owns.
LayerExperts Unowned(const Plan& plan);
// Refuses unknown keys in files that users write by hand, where they are typing mistakes. kCorrupt
// names the key.
Status CheckMembers(const std::string& where, const Json& value,
                    const std::vector<std::string>& allowed);
Status CheckObject(const std::string& where, const Json& value);

// These rules hold for any plan; kCorrupt names the one that is broken. Called before a plan is
// read, because reading expands "*" once per group.
Status CheckGroupCount(const std::string& where, const Plan& plan, size_t groups);
Status CheckOneOwner(const std::string& where, const Plan& plan);
Status CheckEligibleCounts(const std::string& where, const Plan& plan);

// Turns kCorrupt into kInvalidArgument, because options that do not fit the model are a mistake of
// the user and not a corrupt file.
template <class T>
Result<T> AsUserMistake(Result<T> result) {
  if (result) return result;
  Error error = std::move(result).error();
  error.code = Code::kInvalidArgument;
  return error;
}

}  // namespace moepack
