// The JSON formats of expert scores.
#include "tests/fuzz/expert_scores.h"

namespace expert_scores_target {

std::vector<std::string> Seeds() {
  return {R"({"schema": "llama.cpp.moe_layer_opt_perf.v1", "n_expert": 2, "n_expert_used": 1,
              "layers": [{"layer": 0, "calls": 4, "experts": [[0, 1]], "hot_experts": [[0, 5]],
              "cold_experts": [[1, 7]]}]})",
          R"({"logical_count": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]})",
          R"({"0": {"total_tokens": 4, "expert_frequency": [1, 3], "reap": [0.5, 2],
              "max_activations": [1, 2]}})",
          R"({"format": "moepack-scores", "version": 1, "router_digest": "", "basis": "gate",
              "layers": [{"layer": 1, "experts": 2, "top_k": 1}], "super_experts": {"1": "0"},
              "warnings": ["a"], "sessions": [{"name": "a", "bucket": "", "tokens": 3,
              "token_counts": {"ids": [4, 7], "counts": [1, 2]}, "scores": [[1, 0.5]]}],
              "co_selection": [[3]]})"};
}

constexpr fuzz::Target kTarget{fuzz::CheckScores, Seeds};

}  // namespace expert_scores_target

FUZZ_JSON_TARGET(FuzzExpertScores, expert_scores_target::kTarget)
