// What `moepack statistics` writes, and where.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/import/export.h"
#include "libshard/import/import.h"
#include "tools/options/options.h"

namespace moepack::cli {

inline constexpr const char* kStatisticsOnStandardOutput = "-";

struct StatisticsArguments {
  std::string action;
  std::vector<std::string> files;
  SourceArguments model;  // its source is "" without --model
  std::string from, to;   // "" if they were not given
  std::optional<std::string> score, out, weighting;
  std::string plan;
  std::optional<uint64_t> budget;
  bool force = false, json = false;
};

// kInvalidArgument for an output that is an input, already exists without --force, or has a name
// that its format does not allow: `statistics` says whether it is that of `profile`.
Status CheckStatisticsOutput(const StatisticsArguments& arguments, bool statistics);

// Whether all files are statistics of `profile`, judging by their first bytes.
Result<bool> AllAreStatistics(const std::vector<std::string>& files);
// Merges statistics of `profile`; those of a model other than `model`, if there is one, are
// refused.
Result<Statistics> MergeFiles(const std::vector<std::string>& files,
                              const std::optional<MoeModel>& model);

// The text of the scores in another tool's format.
Result<std::string> ExportText(const Exporter& exporter, const ExpertScores& scores,
                               const StatisticsArguments& arguments,
                               const std::optional<MoeModel>& model);

}  // namespace moepack::cli
