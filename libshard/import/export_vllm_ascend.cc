// Expert lists of vllm-ascend: a line per layer, ids best first. Its option expert_prune_ratio
// determines how many are kept.
#include "libshard/base/text/text.h"
#include "libshard/import/export.h"

namespace moepack {
namespace {

Result<std::string> WriteVllmAscend(const ExpertScores& scores, const ExportOptions&) {
  const std::vector<double> sums = SumOfScores(scores);
  std::string text;
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    std::vector<std::string> ids;
    for (const RankedId& expert : RankLayer(scores, sums, i)) ids.push_back(Cat(expert.expert));
    text += Cat("{\"", scores.layers[i].layer, "\": [", Join(ids, ", "), "]}\n");
  }
  return text;
}

}  // namespace

constinit const Exporter kVllmAscendExporter = {
    "vllm-ascend", "an expert list for vllm-ascend (JSONL), ids best first",
    std::nullopt,  false,
    false,         WriteVllmAscend};

}  // namespace moepack
