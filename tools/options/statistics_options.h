// The options of a plan that decides from statistics.
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/model.h"
#include "libshard/plan/plan.h"
#include "libshard/stats/expert_scores.h"

namespace moepack::cli {

// --statistics, --score, --eligible, --pin, --pin-super, --held-out, --seed.
void AddStatisticsOptions(CLI::App& app, PlanOptions& options);
// Refuses what cannot go together: kInvalidArgument.
Status CheckStatisticsOptions(const PlanOptions& options);
// As distribution.json records them: names of files without directories, and no defaults.
std::vector<std::string> RecordStatisticsOptions(const PlanOptions& options);

// Refuses statistics of another model (CheckRouters), and prints a warning where its routers cannot
// be read. `where` names the files, and `measured` is their router digest, "" if they have none.
Status CheckMeasuredOn(const std::string& where, const std::string& measured,
                       const MoeModel& model);

// Reads the statistics that the options name, prints their warnings, chooses the partition if they
// name none, and makes the plan.
Result<Plan> PlanFromOptions(const MoeModel& model, PlanOptions& options);
// The options with scores read; several plans may be made from them.
Result<PlanOptions> WithScores(const MoeModel& model, PlanOptions options);
// Sets the partition of options that name none, and says which it is and why where statistics
// decide. REQUIRES: scores are read.
Status ChoosePartition(PlanOptions& options);

}  // namespace moepack::cli
