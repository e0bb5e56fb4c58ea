#include "runtime-shim/refit/refit.h"

#include <gmock/gmock.h>

#include <limits>
#include <numeric>

#include "fixtures/temp_dir.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/recipe/imatrix.h"
#include "tests/runtime-shim/refit/tiny_refit.h"

namespace moepack::runtime {
namespace {

using testing::HasSubstr;

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
  const RefitRecord record = MustRun(refit, directory / "store");
  EXPECT_EQ(record.outcomes.size(), refit.weights->moe_layers.size());
  for (const RefitOutcome& outcome : record.outcomes) {
    EXPECT_LT(outcome.error_before, 1e-8);
    EXPECT_LE(outcome.error_after, outcome.error_before);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, RefitOfFamily,
                         testing::Values("llama", "qwen2moe", "qwen3moe", "olmoe", "deepseek2",
                                         "glm4moe", "gpt-oss", "llama4", "minimax-m2", "granitemoe",
                                         "phimoe", "dots1", "ernie4_5-moe", "hunyuan-moe",
                                         "bailingmoe", "bailingmoe2", "qwen3next", "qwen35moe",
                                         "mimo2", "deepseek32", "glm-dsa", "gemma4",
                                         "nemotron_h_moe", "mistral4", "bailingmoe3", "exaone-moe",
                                         "afmoe", "smallthinker", "kimi-k3"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Refit, RefusesExpertsThatShareChunks) {
  TinyRefit refit("grovemoe");
  ASSERT_TRUE(refit.Open());
  const auto checked = CheckRefit(refit.input(), SmallOptions());
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::kUnsupported);
  EXPECT_THAT(checked.error().message, HasSubstr("found experts that share chunks"));
}

TEST(Refit, RefusesSeveralResidualStreams) {
  TinyRefit refit("deepseek4");
  ASSERT_TRUE(refit.Open());
  const auto checked = CheckRefit(refit.input(), SmallOptions());
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::kUnsupported);
  EXPECT_EQ(checked.error().message,
            "tiny: refit: expected one residual stream, found 2 (deepseek4)");
}

TEST(Refit, StoreDoesNotDependOnThreads) {
  const fixtures::TempDir directory;
  for (const char* family : {"glm4moe", "gemma4", "nemotron_h_moe"}) {
    TinyRefit one(family, 1), three(family, 3);
    const auto first = directory / Cat(family, "-1"), second = directory / Cat(family, "-3");
    MustRun(one, first);
    MustRun(three, second);
    EXPECT_EQ(FilesOf(first), FilesOf(second));
  }
}

// Their target is the whole model's sum of experts, in the experts' space.
TEST(Refit, ExpertsOfASpaceOfTheirOwnKeepRoutersOfTheStream) {
  const fixtures::TempDir directory;
  TinyRefit refit("nemotron_h_moe");
  MustRun(refit, directory / "store");
  const auto store = RefitStore::Open(directory / "store");
  ASSERT_TRUE(store);
  const RefitOutcome& first = store->record().outcomes.front();
  const auto read = store->Read(first.layer, first.group);
  ASSERT_TRUE(read && *read) << read.error().message;
  EXPECT_LT((*read)->hidden, (*read)->router_width);
  EXPECT_EQ((*read)->down.size(), 4 * (*read)->hidden * (*read)->width);
  EXPECT_EQ((*read)->router.size(), 4 * (*read)->router_width);
}

// A store may be of the same model and plan by its record, but hold other arrays.
TEST(Refit, StoreWithExpertsOfAnotherSizeIsRefused) {
  const fixtures::TempDir directory;
  TinyRefit refit("qwen3moe"), other("nemotron_h_moe");
  MustRun(other, directory / "other");
  const auto store = RefitStore::Open(directory / "other");
  ASSERT_TRUE(store && refit.Open());
  const uint32_t layer = store->record().outcomes.front().layer;
  const auto redone = RedoLayer(refit.input(), SmallOptions(), *store, layer + 1);
  ASSERT_FALSE(redone);
  EXPECT_EQ(redone.error().code, Code::kMismatch);
  EXPECT_THAT(redone.error().message, HasSubstr(": experts: expected some of \"0-1,4-5\", "));
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
  EXPECT_EQ(own.counts.size(), record.Find(1, 1)->expert_ids.size());
}

// In both, ridge regression is joint and the router sees all tokens.
TEST(Refit, SpilledRowsGiveTheSameValues) {
  const fixtures::TempDir directory;
  RefitOptions little = SmallOptions();
  little.memory = 800000;  // two of six rows of all tokens fit
  little.scratch = directory.path().string();
  TinyRefit refit("qwen3moe");
  const RefitRecord spilled = MustRun(refit, directory / "spilled", little);
  RefitOptions more = little;
  more.memory = 1u << 24;
  const RefitRecord held = MustRun(refit, directory / "held", more);
  EXPECT_EQ(spilled.outcomes, held.outcomes) << "figures, and digests of the values";
  EXPECT_EQ(held.outcomes.size(), 4u);
  EXPECT_TRUE(held.outcomes[0].accepted);
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
    for (const RefittedArray& array : RefittedArrays())
      EXPECT_EQ((**stored).*array.values, experts.*array.values) << array.name;
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
    for (const RefittedArray& array : RefittedArrays())
      EXPECT_EQ((**copy).*array.values, (**own).*array.values) << array.name;
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
  for (const auto& [layer, count] : refit.weights->moe_layers)
    overlay.experts_by_layer[layer] = {1, 6};
  MustRun(refit, directory / "store");
  const auto store = RefitStore::Open(directory / "store");
  ASSERT_TRUE(store);
  const auto read = store->Read(0, 0);
  ASSERT_TRUE(read && *read) << read.error().message;
  EXPECT_EQ((*read)->expert_ids, (ExpertIds{0, 4, 5}));
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
