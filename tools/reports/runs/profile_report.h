// The output of `profile`.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/stats/summary.h"
#include "tools/options/session_texts.h"

namespace moepack::cli {

// Borrows the statistics.
struct ProfileReport {
  const Statistics& statistics;
  StatisticsSummary summary;
  std::string out, trace, imatrix;  // "" if nothing was written
};

std::string ProfileText(const ProfileReport& report);
// What was written, and whether there was enough text.
std::string ProfileLine(const ProfileReport& report);
moepack::Json ProfileJson(const ProfileReport& report);

// For a dry run: what would be run.
std::string ProfilePlanText(const std::vector<TokenSession>& sessions, uint32_t generate);
std::string ProfilePlanLine(const std::vector<TokenSession>& sessions);
moepack::Json ProfilePlanJson(const std::vector<TokenSession>& sessions, uint32_t generate);

uint64_t CountTokens(const std::vector<TokenSession>& sessions);

}  // namespace moepack::cli
