// What `moepack replay` found, as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/replay/cache_replay.h"
#include "libshard/replay/expected_hits.h"

namespace moepack::cli {

// One size of the cache of every layer.
struct ReplaySize {
  uint32_t slots = 0;             // of each layer
  std::optional<uint64_t> bytes;  // of all layers, if the size of an expert is known
};

struct ReplayReport {
  const RouteTrace& trace;
  const std::vector<ReplaySize>& sizes;
  const std::vector<ReplayRow>& rows;
  uint32_t prefill_batch = 1;
  uint32_t first_counted = 0;
  bool bytes = false, blocks = false;  // what is known about the layout
  std::string fixed_from;              // where the static set comes from; "" without one
};
std::string ReplayText(const ReplayReport& report);
// The row with the most hits.
std::string ReplayLine(const ReplayReport& report);
Json ReplayJson(const ReplayReport& report);

// The same for statistics, which have no order.
struct ExpectedReport {
  const std::string& file;
  const ExpertScores& scores;
  const std::vector<ReplaySize>& sizes;
  const std::vector<ExpectedHits>& hits;  // by size
};
std::string ExpectedText(const ExpectedReport& report);
Json ExpectedJson(const ExpectedReport& report);

}  // namespace moepack::cli
