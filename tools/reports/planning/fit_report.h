// What machines need and have, and comparisons of groups and recipes, as tables and as JSON.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/sizing/cache_shape.h"
#include "libshard/sizing/fit_nodes.h"
#include "libshard/sizing/stages.h"
#include "libshard/sizing/sweep.h"

namespace moepack::cli {

// "4 sessions of 32,768 tokens in q8_0".
std::string CacheUseText(const CacheUse& use);

// One line per node. Without budgets the columns of machine and rest are left out.
std::string FitText(const std::vector<NodeFit>& fits, const CacheUse& use);
moepack::Json FitJson(const std::vector<NodeFit>& fits, const CacheUse& use);

// One line per stage.
std::string StagesText(const std::vector<StageNeed>& stages);
moepack::Json StagesJson(const std::vector<StageNeed>& stages);

// One line per row. With a budget it shows which fit and, if known, how much each captures and the
// damage of its types; what several numbers of groups give alike is shown for the smallest.
std::string SweepText(const SweepTable& table, const SweepOptions& options);
// "best: 2 groups with Q4_K_M, 13 experts per layer, 5.81 MB".
std::string SweepLine(const SweepTable& table, const SweepOptions& options);
moepack::Json SweepJson(const SweepTable& table, const SweepOptions& options);

}  // namespace moepack::cli
