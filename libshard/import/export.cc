#include "libshard/import/export.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/import/score_table.h"
#include "libshard/import/scores_file.h"

namespace moepack {
namespace {

#define SHARD_LIST_EXPORTER(name) &name,
constexpr const Exporter* kExporters[] = {SHARD_EXPORTERS(SHARD_LIST_EXPORTER)};
#undef SHARD_LIST_EXPORTER

constexpr double kLargestWhole = 1e6;

// What our reader would refuse is not written. A table has one value more than its numbers, and a
// session has some for its name and tokens.
Result<std::string> WriteScoresFile(const ExpertScores& scores, const ExportOptions&) {
  constexpr size_t kOfSession = 16, kOfDocument = 64;
  size_t values = kOfDocument + scores.warnings.size() + 8 * scores.layers.size();
  for (const SessionScores& session : scores.sessions)
    values +=
        kOfSession + scores.layers.size() + session.scores.size() + 2 * session.token_counts.size();
  for (const std::vector<uint64_t>& pairs : scores.co_selection) values += 1 + pairs.size();
  if (values <= kMaxImportValues) return WriteJson(ScoresToJson(scores));
  return Error{
      Code::kUnsupported,
      Cat("moepack-scores: expected at most ", kMaxImportValues, " numbers, found ", values),
      "keep statistics of profile as they are"};
}

}  // namespace

std::span<const Exporter* const> Exporters() { return kExporters; }

const Exporter* FindExporter(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kExporters), std::end(kExporters),
                   [&](const Exporter* exporter) { return exporter->name == name; });
  return found == std::end(kExporters) ? nullptr : *found;
}

std::vector<RankedId> RankLayer(const ExpertScores& scores, const std::vector<double>& sums,
                                size_t index) {
  std::vector<RankedId> ranked;
  const size_t offset = scores.Offset(index);
  for (uint32_t e = 0; e < scores.layers[index].expert_count; ++e)
    ranked.push_back({index, e, sums[offset + e]});
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const RankedId& a, const RankedId& b) { return a.score > b.score; });
  return ranked;
}

std::vector<uint64_t> WholeSums(const ExpertScores& scores) {
  const std::vector<double> sums = SumOfScores(scores);
  double largest = 0;
  for (const double sum : sums) largest = std::max(largest, sum);
  const double scale =
      scores.basis == ScoreBasis::kCount || largest <= 0 ? 1 : kLargestWhole / largest;
  std::vector<uint64_t> whole;
  // Sums beyond 2^53 have no exact digits anyway.
  for (const double sum : sums) {
    const double scaled = std::min(std::round(sum * scale), 9007199254740992.0);
    whole.push_back(std::max(static_cast<uint64_t>(scaled), uint64_t{sum > 0}));
  }
  return whole;
}

constinit const Exporter kScoresExporter = {
    kScoresFormat, "all scores and sessions, read by moepack alone (JSON)",
    std::nullopt,  false,
    false,         WriteScoresFile};

}  // namespace moepack
