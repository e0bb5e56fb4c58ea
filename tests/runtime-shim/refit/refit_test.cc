#include "runtime-shim/refit/refit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <map>
#include <numeric>

#include "fixtures/temp_dir.h"
#include "libshard/base/parallel.h"
#include "libshard/recipe/imatrix.h"
#include "libshard/strategies/split_mix.h"
#include "runtime-shim/devices/executors.h"
#include "tests/runtime-shim/support/tiny_weights.h"

namespace moepack::runtime {
namespace {

using testing::HasSubstr;

constexpr uint32_t kVocabulary = 40, kTokensOfText = 600;

std::vector<uint32_t> RandomTokens(uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<uint32_t> tokens(kTokensOfText);
  for (uint32_t& token : tokens) token = static_cast<uint32_t>(random.Below(kVocabulary));
  return tokens;
}

// Two groups of four of the eight experts of each layer that has any.
Plan HalvesOf(const Weights& weights) {
  Plan plan;
  plan.scheme = "halves";
  plan.layers = weights.moe_layers;
  plan.groups.resize(2);
  for (const auto& [layer, count] : weights.moe_layers) {
    plan.groups[0].owned[layer] = {0, 1, 4, 5};
    plan.groups[1].owned[layer] = {2, 3, 6, 7};
  }
  return plan;
}

RefitOptions SmallOptions() {
  RefitOptions options;
  options.context = 16;
  options.least_tokens = 20;
  options.fold = 4;
  return options;
}

// Every file of a directory with its bytes.
std::map<std::string, std::string> FilesOf(const std::filesystem::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ifstream in(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = {std::istreambuf_iterator<char>(in), {}};
  }
  return files;
}

// A refit of a tiny model on random tokens.
class TinyRefit {
 public:
  explicit TinyRefit(const std::string& architecture, uint32_t threads = 1)
      : weights(TinyWeights(architecture)), threads_(threads) {}

  Result<RefitRecord> Run(const std::filesystem::path& directory, const RefitOptions& options,
                          const RefitEvents& events = {}) {
    SHARD_CHECK(Open());
    RefitRecord record;
    RecordOptions(options, record);
    record.model = std::string(16, '1');
    record.plan = RefitPlanDigest(plan);
    record.calibration = {{"made", "", std::string(64, '0'), kTokensOfText}};
    SHARD_TRY(RefitStoreWriter store, RefitStoreWriter::Open(directory, record));
    RefitOptions used = options;
    used.jobs = threads_;
    SHARD_CHECK(RefitModel(input(), used, events, store, directory));
    return store.record();
  }
  Status Open() {
    ExecutorOptions device;
    device.threads = threads_;
    SHARD_TRY(executor_, OpenExecutor("cpu", device));
    SHARD_TRY(model_, Model::Load(weights, *executor_));
    if (plan.groups.empty()) plan = HalvesOf(*weights);
    return Ok();
  }
  RefitInput input() const { return {*model_, plan, sessions_, std::nullopt}; }

  std::shared_ptr<Weights> weights;
  Plan plan;

 private:
  uint32_t threads_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Model> model_;
  const std::vector<uint32_t> first_ = RandomTokens(1), second_ = RandomTokens(2);
  const std::vector<CalibrationSession> sessions_ = {{"one", "", first_, {}},
                                                     {"two", "", second_, {}}};
};

RefitRecord MustRun(TinyRefit& refit, const std::filesystem::path& directory,
                    const RefitOptions& options = SmallOptions()) {
  auto record = refit.Run(directory, options);
  EXPECT_TRUE(record) << record.error().message;
  return record ? *std::move(record) : RefitRecord();
}

class RefitOfFamily : public testing::TestWithParam<const char*> {};

TEST_P(RefitOfFamily, LowersTheErrorOfEveryLayer) {
  const fixtures::TempDir directory;
  TinyRefit refit(GetParam());
  const RefitRecord record = MustRun(refit, directory / "store");
  EXPECT_EQ(record.outcomes.size(), 2 * refit.weights->moe_layers.size());
  for (const RefitOutcome& outcome : record.outcomes) {
    EXPECT_TRUE(outcome.accepted) << "layer " << outcome.layer << " group " << outcome.group;
    EXPECT_LT(outcome.error_after, outcome.error_before);
  }
}

// Its target is the output of its experts: attention, shared experts and scales of all families are
// removed and added back.
TEST_P(RefitOfFamily, NodeWithAllExpertsHasNothingToRefit) {
  const fixtures::TempDir directory;
  TinyRefit refit(GetParam());
  refit.plan = HalvesOf(*refit.weights);
  refit.plan.groups.resize(1);
  for (const auto& [layer, count] : refit.weights->moe_layers)
    refit.plan.groups[0].owned[layer] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (const RefitOutcome& outcome : MustRun(refit, directory / "store").outcomes)
    EXPECT_LT(outcome.error_before, 1e-8);
}

INSTANTIATE_TEST_SUITE_P(Every, RefitOfFamily,
                         testing::Values("llama", "qwen2moe", "qwen3moe", "olmoe", "deepseek2",
                                         "glm4moe", "gpt-oss", "llama4", "minimax-m2", "granitemoe",
                                         "phimoe"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Refit, StoreDoesNotDependOnThreads) {
  const fixtures::TempDir directory;
  TinyRefit one("glm4moe", 1), three("glm4moe", 3);
  MustRun(one, directory / "one");
  MustRun(three, directory / "three");
  EXPECT_EQ(FilesOf(directory / "one"), FilesOf(directory / "three"));
}

// The entries of experts are those of their tensors; without an observed executor there are no
// others.
TEST(Refit, WritesAnImportanceMatrixOfTheNodes) {
  const fixtures::TempDir directory;
  TinyRefit refit("qwen3moe");
  const RefitRecord record = MustRun(refit, directory / "store");
  const auto imatrix = ReadImatrix((directory / "store" / kRefitImatrix).string());
  ASSERT_TRUE(imatrix) << imatrix.error().message;
  EXPECT_THAT(imatrix->datasets, testing::ElementsAre("made"));
  EXPECT_EQ(imatrix->chunk_tokens, SmallOptions().context);
  EXPECT_FALSE(imatrix->router_digest.empty());
  const ImatrixEntry& up = imatrix->entries.at("blk.1.ffn_up_exps.weight");
  EXPECT_EQ(up.counts.size(), 8u);
  const float tokens = std::accumulate(up.counts.begin(), up.counts.end(), 0.0F);
  EXPECT_EQ(tokens, 2.0F * 2 * 2 * kTokensOfText) << "two experts, two texts, two groups";
  const ImatrixEntry& own = imatrix->entries.at("group.001.blk.1.ffn_down_exps.weight");
  EXPECT_EQ(own.counts.size(), record.Find(1, 1)->experts.size());
}

TEST(Refit, SpilledRowsGiveTheSameValues) {
  const fixtures::TempDir directory;
  RefitOptions little = SmallOptions();
  little.memory = 40000;  // the matrices fit, the rows do not
  little.scratch = directory.path().string();
  TinyRefit refit("qwen3moe");
  const RefitRecord spilled = MustRun(refit, directory / "spilled", little);
  RefitOptions more = little;
  more.memory = 1u << 20;
  const RefitRecord held = MustRun(refit, directory / "held", more);
  ASSERT_EQ(spilled.outcomes.size(), held.outcomes.size());
  for (size_t i = 0; i < held.outcomes.size(); ++i)
    EXPECT_LT(spilled.outcomes[i].error_after, spilled.outcomes[i].error_before);
}

// Stops after the first layer, like a kill.
TEST(Refit, InterruptedRunResumesToTheSameBytes) {
  const fixtures::TempDir directory;
  TinyRefit refit("qwen3moe");
  MustRun(refit, directory / "whole");
  RefitEvents events;
  events.refitted = [](const LayerOutcome& outcome, bool) {
    if (outcome.outcome.layer == 1) InterruptRequested() = true;
  };
  const auto stopped = refit.Run(directory / "parts", SmallOptions(), events);
  InterruptRequested() = false;
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::kInterrupted);
  EXPECT_NE(FilesOf(directory / "parts"), FilesOf(directory / "whole"));
  std::vector<bool> again;
  events.refitted = [&](const LayerOutcome&, bool before) { again.push_back(before); };
  ASSERT_TRUE(refit.Run(directory / "parts", SmallOptions(), events));
  EXPECT_EQ(again, (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(FilesOf(directory / "parts"), FilesOf(directory / "whole"));
}

TEST(Refit, RedoneLayerMatchesTheStoreBitForBit) {
  const fixtures::TempDir directory;
  TinyRefit refit("qwen3moe");
  MustRun(refit, directory / "store");
  const auto store = RefitStore::Open(directory / "store");
  ASSERT_TRUE(store);
  const RefitOptions options = SmallOptions();
  const RefitInput input = refit.input();
  const auto redone = RedoLayer(input, options, *store, 1);
  ASSERT_TRUE(redone) << redone.error().message;
  for (const RefittedExperts& experts : redone->accepted) {
    const auto stored = store->Read(1, experts.group);
    ASSERT_TRUE(stored && *stored);
    EXPECT_EQ((*stored)->down, experts.down);
    EXPECT_EQ((*stored)->gate, experts.gate);
    EXPECT_EQ((*stored)->router, experts.router);
  }
  EXPECT_EQ(redone->accepted.size(), 2u);
  const auto missing = RedoLayer(input, options, *store, 9);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("layer 9: expected one that was refitted"));
}

// The model chooses two of four experts, the nodes three.
TEST(Refit, NodesMayUseMoreExperts) {
  const fixtures::TempDir directory;
  TinyRefit refit("qwen3moe");
  RefitOptions three = SmallOptions();
  three.top_k = 3;
  const RefitRecord with = MustRun(refit, directory / "three", three);
  const RefitRecord without = MustRun(refit, directory / "model");
  EXPECT_EQ(with.parameters.at("top_k"), "3");
  const auto chosen = [](const RefitOutcome& outcome) {
    return std::accumulate(outcome.slot_tokens.begin(), outcome.slot_tokens.end(), uint64_t{0});
  };
  EXPECT_EQ(2 * chosen(with.outcomes[0]), 3 * chosen(without.outcomes[0]));
  EXPECT_TRUE(with.outcomes[0].accepted);
  three.top_k = 5;
  const auto refused = refit.Run(directory / "five", three);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "--top-k: expected at most 4, the experts of group 0 in layer 0, found 5");
}

// Such groups are refitted once, and the copy must equal the result of a separate refit.
TEST(Refit, GroupsWithTheSameExpertsGetTheSameValues) {
  const fixtures::TempDir directory;
  TinyRefit both("qwen3moe"), alone("qwen3moe");
  both.plan = HalvesOf(*both.weights);
  both.plan.groups.push_back(both.plan.groups[0]);
  alone.plan = HalvesOf(*alone.weights);
  const RefitRecord record = MustRun(both, directory / "both");
  const RefitRecord single = MustRun(alone, directory / "alone");
  const auto of_both = RefitStore::Open(directory / "both");
  const auto of_alone = RefitStore::Open(directory / "alone");
  ASSERT_TRUE(of_both && of_alone);
  for (const auto& [layer, count] : both.weights->moe_layers) {
    EXPECT_EQ(record.Find(layer, 2)->error_after, single.Find(layer, 0)->error_after);
    const auto copy = of_both->Read(layer, 2), own = of_alone->Read(layer, 0);
    ASSERT_TRUE(copy && *copy && own && *own);
    EXPECT_EQ((*copy)->group, 2u);
    EXPECT_EQ((*copy)->down, (*own)->down);
    EXPECT_EQ((*copy)->gate, (*own)->gate);
    EXPECT_EQ((*copy)->router, (*own)->router);
    const auto other = of_both->Read(layer, 1);
    ASSERT_TRUE(other && *other);
    EXPECT_NE((*other)->down, (*own)->down);
  }
}

TEST(Refit, KeepsOverlayExperts) {
  const fixtures::TempDir directory;
  TinyRefit refit("qwen3moe");
  refit.plan = HalvesOf(*refit.weights);
  OverlayPlan& overlay = refit.plan.overlays.emplace_back();
  overlay.version = "one";
  for (const auto& [layer, count] : refit.weights->moe_layers) overlay.experts[layer] = {1, 6};
  MustRun(refit, directory / "store");
  const auto store = RefitStore::Open(directory / "store");
  ASSERT_TRUE(store);
  const auto read = store->Read(0, 0);
  ASSERT_TRUE(read && *read) << read.error().message;
  EXPECT_EQ((*read)->experts, (ExpertIds{0, 4, 5}));
}

TEST(Refit, NamesTheLayerOfActivationsThatAreNotFinite) {
  const fixtures::TempDir directory;
  TinyRefit refit("qwen3moe");
  ValueOf(*refit.weights, "blk.1.attn_output.weight", 0) = std::numeric_limits<float>::infinity();
  const auto record = refit.Run(directory / "store", SmallOptions());
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().code, Code::kCorrupt);
  EXPECT_THAT(record.error().message, HasSubstr("layer 1: "));
}

TEST(Refit, NamesAnExpertThatIsNotLoaded) {
  const fixtures::TempDir directory;
  TinyRefit refit("qwen3moe");
  refit.plan = HalvesOf(*refit.weights);
  refit.weights = WithExperts(*refit.weights, {0, 1, 2, 3});
  const auto record = refit.Run(directory / "store", SmallOptions());
  ASSERT_FALSE(record);
  EXPECT_THAT(record.error().message, HasSubstr("expert 4: expected to be loaded"));
  EXPECT_THAT(record.error().hint, HasSubstr("whole model"));
}

TEST(Refit, NamesAMissingScratchDirectory) {
  const fixtures::TempDir directory;
  RefitOptions options = SmallOptions();
  options.memory = 1;
  options.scratch = "/nowhere/scratch";
  TinyRefit refit("qwen3moe");
  const auto record = refit.Run(directory / "store", options);
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().code, Code::kNotFound);
  EXPECT_THAT(record.error().message, HasSubstr("/nowhere/scratch"));
}

}  // namespace
}  // namespace moepack::runtime
