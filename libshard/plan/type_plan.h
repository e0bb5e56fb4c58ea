// The types that a plan pins, because they were chosen to fit into a number of bytes. Writers take
// them from plan.json, so that nobody has to repeat how they were chosen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack {

struct TypePlan {
  // "REGEX=TYPE"; the first match wins. What no rule names keeps the source's type.
  std::vector<std::string> tensor_types;
  uint64_t budget = 0, bytes = 0;  // of the tensors of the largest node: allowed, and used
  double damage = 0, bound = 0;    // estimated, and what no other choice is below
  bool operator==(const TypePlan&) const = default;
};

// "types" of plan.json:
//
//   {"budget": 6000000, "bytes": 5998208, "damage": 0.031, "damage_bound": 0.031,
//    "tensor_types": ["^blk\\.(0|1)\\.attn_k\\.weight$=q5_K", ...]}
Json TypePlanToJson(const TypePlan& types);
// kCorrupt for members that are missing, of another kind or contradict each other, and for more
// than kMaxTypeRules rules. Whether the rules make sense is for whoever applies them to say.
Result<TypePlan> TypePlanFromJson(const std::string& where, const Json& value);

}  // namespace moepack
