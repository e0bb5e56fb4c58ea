// The output of `refit`.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/refit/refit_record.h"
#include "runtime-shim/refit/calibration.h"
#include "runtime-shim/refit/estimate.h"
#include "runtime-shim/refit/layer_refit.h"

namespace moepack::cli {

// A line about a group of a layer; `again` if it was refitted before.
std::string RefitLine(const runtime::LayerOutcome& outcome, bool again);
// What a refit will need.
struct RefitNeeds {
  runtime::RefitEstimate estimate;
  std::vector<runtime::CalibrationBucket> buckets;
  uint64_t tokens = 0;
  uint64_t memory = 0;  // RefitOptions::memory
  double rate = 0;      // multiplications per second on this machine
  // Among how many machines like this one the groups can be divided, or are; 1 if there is only one
  // group, or --only names some. The multiplications of that with the largest share.
  uint32_t machines = 1;
  double products_of_one = 0;
};
// What is taken of each bucket, a line each without a line break at the end; "" if it is
// everything.
std::string TakenLines(const std::vector<runtime::CalibrationBucket>& buckets);
std::string RefitNeedsText(const RefitNeeds& needs);
std::string RefitNeedsLine(const RefitNeeds& needs);
Json RefitNeedsJson(const RefitNeeds& needs);
// All layers and groups of a refit.
std::string RefitText(const RefitRecord& record);
// "the refit of 8 of 9 groups was accepted, counted layer by layer".
std::string RefittedLine(const RefitRecord& record);

}  // namespace moepack::cli
