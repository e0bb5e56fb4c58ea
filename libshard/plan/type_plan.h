// The types that a plan pins because they were chosen to fit in a given number of bytes. Writers
// take them from plan.json, so that nobody has to repeat the choice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack {

struct TypePlan {
  // "REGEX=TYPE"; the first match wins. Tensors without a rule keep the source's type.
  std::vector<std::string> tensor_types;
  uint64_t budget = 0, bytes = 0;  // of the largest node's tensors: the budget, and what is used
  double damage = 0, bound = 0;    // estimated damage, and a lower bound for any choice
  bool operator==(const TypePlan&) const = default;
};

// "types" of plan.json:
//
//   {"budget": 6000000, "bytes": 5998208, "damage": 0.031, "damage_bound": 0.031,
//    "tensor_types": ["^blk\\.(0|1)\\.attn_k\\.weight$=q5_K", ...]}
Json TypePlanToJson(const TypePlan& types);
// kCorrupt for members that are missing, have the wrong kind or contradict each other, and for more
// than kMaxTypeRules rules. Whoever applies the rules checks whether they make sense.
Result<TypePlan> TypePlanFromJson(const std::string& where, const Json& value);

}  // namespace moepack
