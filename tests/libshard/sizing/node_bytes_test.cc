// tests/conformance/fit_bytes_test.cc checks that these sizes match real builds.
#include "libshard/sizing/node_bytes.h"

#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "libshard/model/model.h"
#include "tests/libshard/model/model_for_test.h"
#include "tests/libshard/sizing/model_to_fit.h"

namespace moepack {
namespace {

TEST(NodeBytes, GrowByTheSizeOfAnExpert) {
  const ModelToFit fit;
  const NodeSizer sizer = fit.Sizer();
  const auto two = sizer.NodeOf(2), three = sizer.NodeOf(3), four = sizer.NodeOf(4);
  ASSERT_TRUE(two && three && four);
  EXPECT_EQ(two->trunk, four->trunk);
  EXPECT_EQ(four->experts - three->experts, three->experts - two->experts);
  // Gate, up and down of 256 x 256 in blocks of 34 bytes for 32 numbers, and a row of the router in
  // F32, in each of two layers.
  EXPECT_EQ(three->experts - two->experts, 2u * (3 * 256 * 256 / 32 * 34 + 256 * 4));
}

TEST(NodeBytes, DependOnHowManyExpertsANodeHasAndNotOnWhich) {
  const ModelToFit fit;
  for (const std::string recipe : {"", "Q4_K_M"}) {
    const NodeSizer sizer = fit.Sizer(recipe);
    const auto plan = MakePlan(fit.model(), ByNumber(2, "modulo"));
    ASSERT_TRUE(plan) << plan.error().message;
    const auto node = sizer.Node(*plan, 1);
    ASSERT_TRUE(node) << node.error().message;
    const auto expected = sizer.NodeOf(4);
    ASSERT_TRUE(expected);
    if (sizer.is_gguf()) {
      EXPECT_EQ(node->experts, expected->experts);
    }
    // Data of safetensors starts at the same offset within a page as in its source.
    EXPECT_LT(node->experts / 4096, expected->experts / 4096 + 2) << recipe;
    EXPECT_GT(node->experts / 4096 + 2, expected->experts / 4096) << recipe;
    EXPECT_EQ(node->trunk, expected->trunk) << recipe;
  }
}

TEST(NodeBytes, AddUpOverTheLayersToTheFiles) {
  const ModelToFit fit;
  for (const std::string recipe : {"", "Q8_0"}) {
    const NodeSizer sizer = fit.Sizer(recipe);
    const ModelBytes bytes = sizer.Layers();
    uint64_t sum = bytes.before + bytes.after;
    for (const auto& [layer, more] : bytes.layers) sum += more.trunk + 8 * more.expert;
    const auto node = sizer.NodeOf(8);
    ASSERT_TRUE(node);
    const uint64_t files = node->trunk + node->experts;
    EXPECT_LE(sum, files) << recipe;
    EXPECT_GT(sum, files - 32768) << recipe;  // two headers
    EXPECT_FALSE(bytes.tied);
    EXPECT_GT(bytes.embedding, 0u);
  }
}

TEST(NodeBytes, NodesWithDifferentCountsInLayersAreRefused) {
  const ModelToFit fit;
  auto plan = MakePlan(fit.model(), ByNumber(2));
  ASSERT_TRUE(plan);
  plan->groups[0].owned[1] = {0, 1, 2};
  const auto node = fit.Sizer().Node(*plan, 0);
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().message,
            "group 0: expected as many eligible experts in layer 1 as in layer 0 (4), found 3");
}

TEST(NodeBytes, ATableOfExpertIdsNeedsAllExpertsOnTheNode) {
  const ModelToFit fit("deepseek-v4", {.layers = 3, .experts = 5, .sparse = true});
  EXPECT_GT(TotalOf(fit.Sizer(""), 5), 0u);
  const auto cut = fit.Sizer("").NodeOf(3);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Code::kUnsupported);
  EXPECT_EQ(cut.error().message,
            "tensor \"layers.0.ffn.gate.tid2eid\": expected a router that scores experts, found a "
            "table that gives tokens fixed experts, some of which are not on this node");
}

TEST(NodeBytes, AreUnknownWithoutTensorSizes) {
  const MoeModel model = ModelForTest()
                             .Family("qwen3-moe")
                             .Layers(1, 4, 2)
                             .Tensor({.pattern = "x"}, {}, "F32", {4})
                             .NamesOnly()
                             .Build();
  const auto sizer = NodeSizer::Make(model, std::nullopt);
  ASSERT_FALSE(sizer);
  EXPECT_EQ(sizer.error().code, Code::kNotFound);
  EXPECT_EQ(sizer.error().message,
            Cat(model.checkpoint().source().string(),
                ": expected the sizes of tensors, found an index, which has none"));
}

TEST(NodeBytes, AreThoseOfSafetensorsForAFamilyWithoutAGgufForm) {
  const ModelToFit fit("jamba", {.sparse = true});
  EXPECT_GT(TotalOf(fit.Sizer(""), 2), 0u);
  QuantizeOptions types;
  types.recipe.recipe = "Q8_0";
  const auto sizer = NodeSizer::Make(fit.model(), types);
  ASSERT_FALSE(sizer);
  EXPECT_EQ(sizer.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace moepack
