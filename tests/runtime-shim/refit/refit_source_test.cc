// Refits of checkpoints on disk, whose experts are read a layer at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/recipe/imatrix.h"
#include "libshard/strategies/split_mix.h"
#include "runtime-shim/devices/executors.h"
#include "runtime-shim/executor/observed_executor.h"
#include "runtime-shim/refit/refit.h"

namespace moepack::runtime {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTokens = 400;

std::vector<uint32_t> TokensBelow(uint32_t vocabulary, uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<uint32_t> tokens(kTokens);
  for (uint32_t& token : tokens) token = static_cast<uint32_t>(random.Below(vocabulary));
  return tokens;
}

std::map<std::string, std::string> BytesIn(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    files[entry.path().filename().string()] = fixtures::ReadFile(entry.path());
  }
  return files;
}

class RefitOfCheckpoint : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ASSERT_TRUE(fixtures::MakeCheckpoint(GetParam(), dir_ / "source")); }

  // Refits two groups into `store` and returns the record.
  Result<RefitRecord> Refit(const char* store, bool later) {
    SHARD_TRY(const MoeModel source, MoeModel::Open(dir_ / "source"));
    PlanOptions two;
    two.groups = 2;
    SHARD_TRY(const Plan plan, MakePlan(source, two));
    LoadOptions load;
    load.experts_later = later;
    SHARD_TRY(const auto weights, LoadWeights((dir_ / "source").string(), load));
    EXPECT_EQ(weights->later != nullptr, later);
    SecondMoments moments;
    SHARD_TRY(std::shared_ptr<Executor> executor, OpenExecutor("cpu", {}));
    executor = std::make_shared<ObservedExecutor>(std::move(executor), moments);
    SHARD_TRY(const auto model, Model::Load(weights, *executor));
    moments.SetWeights(*weights);
    const std::vector<uint32_t> first = TokensBelow(model->vocabulary(), 1),
                                second = TokensBelow(model->vocabulary(), 2);
    const std::vector<TokenSession> sessions = {{"one", "", first, {}}, {"two", "", second, {}}};
    RefitOptions options;
    options.context = 16;
    options.least_tokens = 20;
    options.fold = 4;
    options.updates = 5;
    RefitRecord record;
    RecordOptions(options, record);
    record.model = source.Version("");
    record.plan = RefitPlanDigest(plan);
    record.calibration = {{"made", "", std::string(64, '0'), kTokens}};
    SHARD_TRY(RefitStoreWriter writer, RefitStoreWriter::Open(dir_ / store, record));
    const RefitInput input = {*model, plan, sessions, std::nullopt, &moments};
    SHARD_CHECK(RefitModel(input, options, {}, writer, dir_ / store));
    SHARD_CHECK(CheckRedone(input, options, dir_ / store));
    return writer.record();
  }

  // The last layer, computed again, is that of the store.
  static Status CheckRedone(const RefitInput& input, const RefitOptions& options,
                            const fs::path& directory) {
    SHARD_TRY(const RefitStore store, RefitStore::Open(directory));
    const uint32_t layer = store.record().outcomes.back().layer;
    SHARD_TRY(const RefittedLayer again, RedoLayer(input, options, store, layer));
    for (const RefittedExperts& experts : again.accepted) {
      SHARD_TRY(const auto stored, store.Read(layer, experts.group));
      EXPECT_TRUE(stored);
      if (!stored) continue;
      for (const RefittedArray& array : RefittedArrays())
        EXPECT_EQ((*stored).*array.values, experts.*array.values) << array.name;
    }
    return Ok();
  }

  fixtures::TempDir dir_;
};

TEST_P(RefitOfCheckpoint, IsTheSameWithExpertsLeftInTheSource) {
  const auto record = Refit("later", true);
  ASSERT_TRUE(record) << record.error().message;
  size_t accepted = 0;
  for (const RefitOutcome& outcome : record->outcomes) {
    accepted += outcome.accepted ? 1 : 0;
    EXPECT_LE(outcome.error_after, outcome.error_before);
  }
  EXPECT_GE(accepted, 1u);
  const auto at_once = Refit("at-once", false);
  ASSERT_TRUE(at_once) << at_once.error().message;
  EXPECT_EQ(BytesIn(dir_ / "later"), BytesIn(dir_ / "at-once"));
  const auto imatrix = ReadImatrix((dir_ / "later" / kRefitImatrix).string());
  ASSERT_TRUE(imatrix) << imatrix.error().message;
  const bool trunk =
      std::any_of(imatrix->entries.begin(), imatrix->entries.end(),
                  [](const auto& entry) { return entry.first.find("attn_") != std::string::npos; });
  EXPECT_TRUE(trunk) << "the nodes' attention is in the importance matrix too";
}

// nemotron-3: experts without a gate. deepseek-v3: FP8. step-3.5: some layers limit activations. A
// projection or a norm follows the sum of the experts in the last two.
INSTANTIATE_TEST_SUITE_P(Layouts, RefitOfCheckpoint,
                         testing::Values("qwen3-moe", "nemotron-3", "deepseek-v3", "step-3.5",
                                         "nemotron-3-super", "gemma-4"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

}  // namespace
}  // namespace moepack::runtime
