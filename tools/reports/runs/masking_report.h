// The output of check.
#pragma once

#include <string>

#include "runtime-shim/masking/check.h"
#include "tools/base/command.h"
#include "tools/reports/ci_report.h"

namespace moepack::cli {

// One line, two for a node that failed.
std::string CheckedNodeText(const runtime::CheckedNode& node);
// The last line.
std::string CheckSummary(const runtime::CheckReport& report);
// One test case per node; a node that was skipped is a note.
CiReport CheckCi(const std::string& distribution, const runtime::CheckReport& report);
moepack::Json CheckJson(const std::string& distribution, const std::string& against,
                        const runtime::CheckReport& report);

}  // namespace moepack::cli
