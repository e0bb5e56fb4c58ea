// What sessions will find on their node, as `plan` prints it.
#pragma once

#include <string>

#include "libshard/plan/expectation.h"

namespace moepack::cli {

// A line about the statistics, one about what is pinned, and a table: every group, all of them, and
// what other plans of the same size would achieve.
std::string ExpectationText(const PlanExpectation& expectation);

}  // namespace moepack::cli
