// The types that a plan pins, because they were chosen to fit into a number of bytes. Writers take
// them from plan.json, so that nobody has to repeat how they were chosen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/json.h"
#include "libshard/base/result.h"

namespace moepack {

struct TypePlan {
  std::string recipe;                     // for tensors that no rule names
  std::vector<std::string> tensor_types;  // "REGEX=TYPE"; the first match wins
  uint64_t budget = 0, bytes = 0;         // of the weights of the largest node: allowed, and used
  double damage = 0, bound = 0;           // estimated, and what no other choice is below
  bool operator==(const TypePlan&) const = default;
};

// "types" of plan.json:
//
//   {"recipe": "exact", "budget": 6000000, "bytes": 5998208, "damage": 0.031,
//    "damage_bound": 0.031, "tensor_types": ["^blk\\.(0|1)\\.attn_k\\.weight$=q5_K", ...]}
Json TypePlanToJson(const TypePlan& types);
// kCorrupt for members that are missing or of another kind, and for more than 65,536 rules.
Result<TypePlan> TypePlanFromJson(const std::string& where, const Json& value);

}  // namespace moepack
