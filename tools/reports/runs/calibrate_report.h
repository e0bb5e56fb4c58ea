// The output of a calibration.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/calibrate/calibrated_record.h"
#include "runtime-shim/calibrate/estimate.h"
#include "runtime-shim/refit/calibration.h"

namespace moepack::cli {

// A line about a layer; `again` if it was encoded before.
std::string CalibratedLine(const CalibratedRecord& record, const CalibratedOutcome& outcome,
                           bool again);

// The same about a layer of a group, whose refitted experts were encoded.
std::string CalibratedGroupLine(uint32_t group, const CalibratedOutcome& outcome, bool again);

// What a calibration will need.
struct CalibrateNeeds {
  runtime::CalibrateEstimate estimate;
  std::vector<runtime::CalibrationBucket> buckets;
  uint64_t tokens = 0;
  uint64_t memory = 0;    // CalibrateOptions::memory
  uint32_t machines = 1;  // like this one that share the work
  size_t groups = 0;      // whose refitted experts are encoded, too
};
std::string CalibrateNeedsText(const CalibrateNeeds& needs);
Json CalibrateNeedsJson(const CalibrateNeeds& needs);

// How many matrices were encoded with feedback, and why others were not. `seconds`: how long a run
// took; 0 for a store that was used as it is.
std::string CalibratedSummary(const CalibratedRecord& record, double seconds);
Json CalibratedSummaryJson(const CalibratedRecord& record, double seconds);

}  // namespace moepack::cli
