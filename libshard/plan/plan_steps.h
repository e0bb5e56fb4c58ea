// The steps of MakePlan and the rules they share with CheckPlan. Private to libshard/plan/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/plan/plan.h"

namespace moepack {

// Sets scheme, groups[].owned and remainder by the row of partition.h that is asked for.
// REQUIRES: plan.layers is set.
Status PartitionExperts(const PlanOptions& options, Plan& plan);
// Sets overlay and overlay_version.
Status ReadOverlayFile(const std::string& path, Plan& plan);
// Sets groups[].fill so that every eligible count is that of the largest one.
Status FillUniformly(Plan& plan);

bool IsUniform(const Plan& plan);
// The experts of every layer that no group owns.
LayerExperts Unowned(const Plan& plan);
// 1 to 64 of [A-Za-z0-9._-], the first not a dot: overlay versions become directory names.
bool IsLabel(std::string_view text);

// For files that users write by hand: an unknown key is a typing mistake, and kCorrupt names it.
Status CheckMembers(const std::string& where, const Json& value,
                    const std::vector<std::string>& allowed);
Status CheckObject(const std::string& where, const Json& value);

// These rules hold for any plan; kCorrupt names the one that is broken. Called before a plan is
// read, because reading expands "*" once per group.
Status CheckGroupCount(const std::string& where, const Plan& plan, size_t groups);
Status CheckOneOwner(const std::string& where, const Plan& plan);
Status CheckEligibleCounts(const std::string& where, const Plan& plan);

// The same failure as a mistake of the user's: options that do not fit the model are not a corrupt
// file.
template <class T>
Result<T> AsUserMistake(Result<T> result) {
  if (result) return result;
  Error error = std::move(result).error();
  error.code = Code::kInvalidArgument;
  return error;
}

}  // namespace moepack
