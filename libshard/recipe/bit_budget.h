// Spends a budget of bytes on the types of tensors so that the damage from quantization is
// smallest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libshard/base/result.h"

namespace moepack {

// One way to store an item, such as a type for a layer's gate and up experts.
struct BitChoice {
  uint64_t bytes = 0;  // exact
  double damage = 0;   // finite; the damages of different items add up
  bool operator==(const BitChoice&) const = default;
};

// Something that gets one choice; at least one is given.
using BitItem = std::vector<BitChoice>;

struct BitPlan {
  std::vector<size_t> chosen;  // for each item, the index of its choice
  uint64_t bytes = 0;
  double damage = 0;
  // No plan within the budget has less damage; if it equals `damage`, this plan is optimal.
  double bound = 0;
};

// Solves the multiple-choice knapsack problem. It begins with the smallest choice of every item and
// takes steps along their lower convex hulls, in the order of damage saved per byte; where they
// end, Lagrange multipliers give the bound. Then it searches the choices that the bound leaves
// (Pisinger, 1995, calls them the core), up to a fixed number of steps. Ties go to the lower index,
// and equal input gives equal plans everywhere.
//
// kInvalidArgument if even the smallest choices take more than `budget` bytes: the message says how
// many are missing.
Result<BitPlan> SpendBits(const std::vector<BitItem>& items, uint64_t budget);

}  // namespace moepack
