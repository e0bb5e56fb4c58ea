// Expert scores as files that other tools read.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/plan/plan.h"
#include "libshard/stats/expert_scores.h"

namespace moepack {

// How a byte budget for hot experts is spent: equally on every layer, or on the best experts of all
// layers, so that layers with concentrated scores get more.
enum class HotWeighting : uint8_t { kFlat, kMass };
inline constexpr std::array kHotWeightingNames = {"flat", "mass"};

struct ExportOptions {
  std::optional<uint64_t> budget;             // bytes of hot experts
  std::map<uint32_t, uint64_t> expert_bytes;  // of one expert, by layer; for the budget
  HotWeighting weighting = HotWeighting::kFlat;
  // For placements: the plan, and the file that messages name.
  const Plan* plan = nullptr;
  std::string plan_file = {};
};

struct Exporter {
  std::string_view name;
  const char* writes;               // for help: no capital, no full stop
  std::optional<ScoreBasis> basis;  // what its readers expect, used unless the user says otherwise
  bool takes_budget = false, needs_plan = false;  // a format that needs a plan writes no scores
  // REQUIRES: scores that pass CheckExpertScores; a plan if it is needed.
  Result<std::string> (*write)(const ExpertScores& scores, const ExportOptions& options);
};

std::span<const Exporter* const> Exporters();
// Null when there is no such format.
const Exporter* FindExporter(std::string_view name);

// The list that makes them known, in the order of the help.
#define SHARD_EXPORTERS(ROW)                           \
  ROW(kScoresExporter)          /* export.cc */        \
  ROW(kHotCacheExporter)        /* hot_cache.cc */     \
  ROW(kSglangExporter)          /* sglang_counts.cc */ \
  ROW(kKtransformersExporter)   /* sglang_counts.cc */ \
  ROW(kSglangPlacementExporter) /* sglang_counts.cc */ \
  ROW(kVllmAscendExporter)      /* vllm_ascend.cc */

#define SHARD_DECLARE_EXPORTER(name) extern const Exporter name;
SHARD_EXPORTERS(SHARD_DECLARE_EXPORTER)
#undef SHARD_DECLARE_EXPORTER

// One expert of one layer; `index` into ExpertScores::layers.
struct RankedId {
  size_t index = 0;
  uint32_t expert = 0;
  double score = 0;
};
// The experts of a layer by descending score, equal ones by ascending id. `sums` as SumOfScores.
std::vector<RankedId> RankLayer(const ExpertScores& scores, const std::vector<double>& sums,
                                size_t index);

// Sums as whole numbers, which all of these formats store: counts as they are; other scores scaled
// so that the largest of all layers is a million and no positive one becomes 0.
std::vector<uint64_t> WholeSums(const ExpertScores& scores);

}  // namespace moepack
