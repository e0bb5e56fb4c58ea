// Compares numbers of groups and recipes before one is chosen.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/fit/fit_nodes.h"
#include "libshard/model/model.h"

namespace moepack {

// What of the routing `eligible` experts per layer would capture on each of `groups` nodes, from 0
// to 1; no value when it is not known.
using ExpectedCapture = std::function<std::optional<double>(uint32_t groups, uint32_t eligible)>;

// How much noise the types of a recipe add to what the model computes (model_damage.h).
using ExpectedDamage = std::function<Result<double>(const std::string& recipe)>;

struct SweepOptions {
  std::vector<uint32_t> groups;      // each at least 1
  std::vector<std::string> recipes;  // "" for the source's own types
  bool all_recipes_named = false;    // a recipe that is not possible is an error, else a note
  std::optional<uint64_t> budget = std::nullopt;  // bytes of every node
  NodeExtras extras = {};
  ExpectedCapture capture = {};  // may be empty
  ExpectedDamage damage = {};    // may be empty; not asked about the source's own types
};

struct SweepRow {
  uint32_t groups = 0;
  std::string recipe;  // as in SweepOptions
  // With a budget the node holds as many experts as fit it, else its share of them, rounded up.
  NodeNeed need;
  bool fits = true;  // the budget, with every expert on some node; true without a budget
  std::optional<double> capture;
  std::optional<double> damage;  // 0 for the source's own types
};

struct SweepTable {
  // Best first: what fits; then what captures more; then what is damaged less; then more experts
  // per node; then more bytes of weights, which is the finer recipe; then fewer groups. Without a
  // budget, capture and damage in the order of the options.
  std::vector<SweepRow> rows;
  // Of conversions, and why a recipe or a number of groups is missing.
  std::vector<std::string> notes;
};

// Numbers of groups that leave fewer experts than top-k are left out, with a note.
// kInvalidArgument when none is left; errors of the damage.
Result<SweepTable> Sweep(const MoeModel& model, const SweepOptions& options);

}  // namespace moepack
