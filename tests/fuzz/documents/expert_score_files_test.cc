// The formats of expert scores other than JSON.
#include "fixtures/temp_dir.h"
#include "tests/fuzz/expert_scores.h"

namespace expert_score_files_target {

std::string Fixture(const char* name) {
  return fixtures::ReadFile(std::filesystem::path(MOEPACK_SOURCE_DIR "/fixtures/statistics") /
                            name);
}

std::vector<std::string> Seeds() {
  return {Fixture("imatrix.gguf"), Fixture("reap.safetensors"), Fixture("mesh-headings.csv"),
          Fixture("mesh-cache.csv"), Fixture("expert-list.jsonl")};
}

constexpr fuzz::Target kTarget{fuzz::CheckScores, Seeds};

}  // namespace expert_score_files_target

FUZZ_TARGET(FuzzExpertScoreFiles, expert_score_files_target::kTarget)
