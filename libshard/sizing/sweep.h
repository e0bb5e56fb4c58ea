// Compares numbers of groups and recipes so that one can be chosen.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/model.h"
#include "libshard/sizing/fit_nodes.h"

namespace moepack {

// The share of the routing that `eligible` experts per layer would capture on each of `groups`
// nodes, from 0 to 1; no value if it is not known.
using ExpectedCapture = std::function<std::optional<double>(uint32_t groups, uint32_t eligible)>;
// Returns the above for rows of at most `most_groups` groups.
using MakeCapture = std::function<Result<ExpectedCapture>(uint32_t most_groups)>;

// How much noise the types of a recipe add to what the model computes (model_damage.h).
using ExpectedDamage = std::function<Result<double>(const std::string& recipe)>;

struct SweepOptions {
  std::vector<uint32_t> groups;      // each at least 1
  std::vector<std::string> recipes;  // "" for the source's own types
  bool all_recipes_named = false;    // an impossible recipe is an error; otherwise it is a note
  std::optional<uint64_t> budget = std::nullopt;  // bytes of every node
  NodeExtras extras = {};
  MakeCapture capture = {};    // may be empty; called once, for the rows that are not left out
  ExpectedDamage damage = {};  // may be empty; not called for the source's own types
};

struct SweepRow {
  uint32_t groups = 0;
  std::string recipe;  // as in SweepOptions
  // With a budget the node holds as many experts as fit, otherwise its share of them, rounded up.
  NodeNeed need;
  bool fits = true;  // the budget, with every expert on some node; true without a budget
  std::optional<double> capture;
  std::optional<double> damage;  // 0 for the source's own types
};

struct SweepTable {
  // Best first: rows that fit; then, with a budget, fewer groups; then more capture; then less
  // damage; then more experts per node; then more bytes of weights, which means the finer recipe;
  // then fewer groups. Without a budget, capture and damage in the order of the options.
  std::vector<SweepRow> rows;
  // Notes of conversions, and why a recipe or a number of groups is missing.
  std::vector<std::string> notes;
};

// Numbers of groups that leave fewer experts than top-k are left out, with a note. kInvalidArgument
// if none is left; errors of the capture and damage functions.
Result<SweepTable> Sweep(const MoeModel& model, const SweepOptions& options);

}  // namespace moepack
