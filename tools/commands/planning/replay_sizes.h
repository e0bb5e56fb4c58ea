// The sizes of caches that `replay` computes.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/replay/expert_layout.h"
#include "libshard/stats/statistics.h"
#include "tools/reports/runs/replay_report.h"

namespace moepack::cli {

struct ReplaySizeArguments {
  std::vector<uint32_t> slots;
  std::vector<uint64_t> bytes;
};

// --slots and --bytes.
void AddReplaySizes(CLI::App& app, ReplaySizeArguments& arguments);

// The sizes that the options name, or an eighth, a quarter, a half and three quarters of the
// experts, each rounded up; ascending and without repetitions. `layout` is null if the size of an
// expert is not known. kInvalidArgument for a size that no layer can have, or that is given twice.
// REQUIRES: `layers` is not empty.
Result<std::vector<ReplaySize>> ReplaySizesFor(const ReplaySizeArguments& arguments,
                                               const std::vector<MoeLayerShape>& layers,
                                               const ExpertLayout* layout);

}  // namespace moepack::cli
