// The report of a written distribution or, with --dry-run, a planned one.
#pragma once

#include <optional>
#include <string>

#include "libshard/base/text/json.h"
#include "manifest/write/bundle.h"
#include "tools/reports/fetch_report.h"
#include "tools/reports/runs/calibrate_report.h"

namespace moepack::cli {

struct WriteOutcome {
  std::string out;
  const manifest::WriteReport& report;
  double seconds = 0;  // of packing
};
std::string WrittenText(const WriteOutcome& outcome);
// "wrote 21.5 MB in 0.03 s (...); out holds ...": the line of it that --quiet leaves.
std::string WrittenLine(const WriteOutcome& outcome);
moepack::Json WrittenJson(const WriteOutcome& outcome);

struct DryRun {
  std::string out;
  const Plan& plan;
  const manifest::WritePlan& files;
  FetchReport fetch = {};
  std::optional<CalibrateNeeds> needs = std::nullopt;  // of a calibration
};
std::string DryRunText(const DryRun& run);
std::string DryRunLine(const DryRun& run);
moepack::Json DryRunJson(const DryRun& run);

}  // namespace moepack::cli
