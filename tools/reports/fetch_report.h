// What --dry-run says about a source on another machine: how much will be fetched, and how long it
// will take.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "libshard/pack/pack.h"

namespace moepack::cli {

struct FetchReport {
  uint64_t bytes = 0, requests = 0;
  uint64_t sample_bytes = 0;  // that were fetched to measure
  double rate = 0;            // bytes per second of the sample; 0 if it was not measured
};

// Fetches one range of what the run will fetch, at most 4 MiB, to measure the rate of one
// connection. Nothing is fetched if all sources are on this machine.
Result<FetchReport> MeasureFetch(const std::vector<SourceFile>& sources,
                                 const FetchEstimate& estimate);

// A line of text; "" if nothing is to be fetched.
std::string FetchText(const FetchReport& report);
// Null if nothing is to be fetched.
Json FetchJson(const FetchReport& report);

}  // namespace moepack::cli
