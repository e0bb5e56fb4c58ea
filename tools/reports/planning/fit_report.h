// What machines need and have, and comparisons of groups and recipes, as tables and as JSON.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/fit/cache_shape.h"
#include "libshard/fit/fit_nodes.h"
#include "libshard/fit/stages.h"
#include "libshard/fit/sweep.h"

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
// damage of its types.
std::string SweepText(const SweepTable& table, const SweepOptions& options);
moepack::Json SweepJson(const SweepTable& table, const SweepOptions& options);

}  // namespace moepack::cli
