// The work of large models divided over tasks, given only a config: one of this file, and those of
// real models where shared/real is there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/check/promised_model.h"
#include "libshard/plan/plan.h"
#include "libshard/tasks/divide.h"
#include "manifest/write/bundle.h"
#include "tests/conformance/real_files.h"

namespace moepack {
namespace {

constexpr double kMost = 1.1;

fs::path RealFolder() {
  const char* shared = std::getenv("MOEPACK_SHARED");
  return (shared != nullptr ? fs::path(shared) : fs::path(MOEPACK_SOURCE_DIR) / "../shared") /
         "real";
}

// The outputs of a build of 16 groups; `recipe` "": safetensors.
std::vector<OutputFile> OutputsOf(const fs::path& folder, const std::string& recipe) {
  const auto source = LocalSource(folder);
  if (!source) return {};
  auto promised = OpenPromised(*source, "config.json", {});
  EXPECT_TRUE(promised) << promised.error().message;
  if (!promised) return {};
  PlanOptions plan_options;
  plan_options.groups = 16;
  const auto plan = MakePlan(promised->model, plan_options);
  EXPECT_TRUE(plan) << plan.error().message;
  manifest::WriteOptions options;
  options.slice.parts.all = false;  // no assets: a config has none beside it
  options.slice.parts.trunk = true;
  for (uint32_t g = 0; g < 16; ++g) options.slice.parts.groups.push_back(g);
  if (!recipe.empty()) {
    options.gguf.emplace();
    options.gguf->recipe.recipe = recipe;
    options.gguf->convert.part = ConvertOptions::Part::kNoTokenizer;
  }
  auto files = manifest::PlanDistribution(promised->model, *plan, options);
  EXPECT_TRUE(files) << files.error().message;
  return files ? std::move(files->files) : std::vector<OutputFile>();
}

// The speed of encoders depends on the type, so that tasks of equal work differ in bytes: `level`
// says whether there are enough tensors for a task to level that out.
void ExpectBalancedFolder(const fs::path& folder, const std::string& recipe, uint32_t tasks,
                          bool level = true) {
  const std::vector<OutputFile> files = OutputsOf(folder, recipe);
  ASSERT_FALSE(files.empty());
  const WorkDivision division(files, tasks);
  const double work = Imbalance(division.loads(), &TaskLoad::work);
  std::vector<TaskLoad> moved = division.loads();
  for (TaskLoad& load : moved) load.work = load.read + load.written;
  const double bytes = Imbalance(moved, &TaskLoad::work);
  std::printf(
      "%s %s, %u tasks: largest/mean of bytes %.3f (read %.3f, written %.3f), of bytes with "
      "encoding %.3f\n",
      folder.filename().c_str(), recipe.c_str(), tasks, bytes,
      Imbalance(division.loads(), &TaskLoad::read), Imbalance(division.loads(), &TaskLoad::written),
      work);
  EXPECT_LE(work, kMost);
  if (level) {
    EXPECT_LE(bytes, kMost);
  }
}

void ExpectBalanced(const std::string& name, const std::string& recipe, uint32_t tasks,
                    bool level = true) {
  const fs::path folder = RealFolder() / name;
  if (!fs::exists(folder)) GTEST_SKIP() << "nothing divided: there is no folder " << folder;
  ExpectBalancedFolder(folder, recipe, tasks, level);
}

TEST(TaskBalance, BalancesAModelOf235BParameters) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::WriteFile(dir / "config.json", R"({
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "torch_dtype": "bfloat16",
    "num_hidden_layers": 94, "hidden_size": 4096, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
    "moe_intermediate_size": 1536, "intermediate_size": 12288, "norm_topk_prob": true,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
    "max_position_embeddings": 40960, "tie_word_embeddings": false, "vocab_size": 151936})"));
  for (const char* recipe : {"", "Q4_K_M"}) ExpectBalancedFolder(dir.path(), recipe, 16);
}

TEST(TaskBalance, BalancesA235BModelInSafetensors) {
  ExpectBalanced("qwen3-moe/Qwen3-235B-A22B", "", 16);
}

TEST(TaskBalance, BalancesA235BModelInQ4KM) {
  ExpectBalanced("qwen3-moe/Qwen3-235B-A22B", "Q4_K_M", 16);
}

TEST(TaskBalance, BalancesA235BModelFromFp8) {
  ExpectBalanced("qwen3-moe/Qwen3-235B-A22B-FP8", "Q4_K_M", 16);
}

TEST(TaskBalance, BalancesA1TModelOver512Tasks) {
  ExpectBalanced("kimi/Kimi-K2-Instruct", "Q4_K_M", 512, false);
}

}  // namespace
}  // namespace moepack
