#include "libshard/sizing/fit_nodes.h"

#include <gtest/gtest.h>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "tests/libshard/model/model_for_test.h"
#include "tests/libshard/sizing/model_to_fit.h"

namespace moepack {
namespace {

std::vector<uint32_t> EligibleOf(const std::vector<NodeFit>& fits) {
  std::vector<uint32_t> eligible;
  for (const NodeFit& fit : fits) eligible.push_back(fit.need.eligible);
  return eligible;
}

TEST(FitNodes, EachMachineHoldsAsManyExpertsAsFit) {
  const ModelToFit fit;
  const NodeSizer sizer = fit.Sizer();
  const NodeExtras extras{.cache = 1000, .buffers = 200};
  const uint64_t five = TotalOf(sizer, 5) + 1200;
  const auto fits = FitNodes(fit.model(), sizer, {five, five - 1, five + 1, five * 100}, extras, 0);
  ASSERT_TRUE(fits) << fits.error().message;
  EXPECT_EQ(EligibleOf(*fits), (std::vector<uint32_t>{5, 4, 5, 8}));
  EXPECT_EQ(fits->at(0).need.total(), five);
  EXPECT_EQ(fits->at(0).budget, five);
}

TEST(FitNodes, SaysHowManyBytesAMachineLacksForTopK) {
  const ModelToFit fit;
  const NodeSizer sizer = fit.Sizer();
  const auto two = sizer.NodeOf(2);
  ASSERT_TRUE(two);
  const NodeExtras extras{.cache = 3'000'000, .buffers = 1'000'000};
  const uint64_t needed = two->total() + 4'000'000;
  const auto fits = FitNodes(fit.model(), sizer, {needed, needed - 50'000}, extras, 0);
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error().code, Code::kInvalidArgument);
  EXPECT_EQ(fits.error().message,
            Cat("node 1 (", FormatBytes(needed - 50'000), "): trunk ",
                FormatBytes(two->head + two->trunk),
                " + cache 3.00 MB + buffers 1.00 MB + 2 experts per layer (top-k) ",
                FormatBytes(two->experts), " = ", FormatBytes(needed), ": 50.0 kB too much"));
}

TEST(FitNodes, EveryNodeHoldsAtLeastTheExpertsOnEveryNode) {
  const ModelToFit fit;
  const NodeSizer sizer = fit.Sizer();
  const uint64_t four = TotalOf(sizer, 4);
  EXPECT_TRUE(FitNodes(fit.model(), sizer, {four}, {}, 4));
  const auto refused = FitNodes(fit.model(), sizer, {four}, {}, 5);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("5 experts per layer (on every node)"), std::string::npos);
  const auto impossible = FitNodes(fit.model(), sizer, {four}, {}, 9);
  ASSERT_FALSE(impossible);
  EXPECT_EQ(impossible.error().message,
            "nodes: expected at least 9 experts in every layer, found a layer of 8");
}

TEST(FitNodes, MeasuresTheNodesOfAPlanAgainstTheirMachines) {
  const ModelToFit fit;
  const NodeSizer sizer = fit.Sizer("");
  const auto plan = MakePlan(fit.model(), ByNumber(2));
  ASSERT_TRUE(plan);
  const auto measured = MeasureNodes(sizer, *plan, {}, {.cache = 10, .buffers = 20});
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(EligibleOf(*measured), (std::vector<uint32_t>{4, 4}));
  const uint64_t needed = measured->at(1).need.total();
  EXPECT_EQ(needed, measured->at(1).need.weights.total() + 30);
  EXPECT_TRUE(MeasureNodes(sizer, *plan, {needed, needed}, {.cache = 10, .buffers = 20}));
  const auto refused =
      MeasureNodes(sizer, *plan, {needed, needed - 1}, {.cache = 10, .buffers = 20});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("node 1 ("), std::string::npos);
  EXPECT_NE(refused.error().message.find(": 1 B too much"), std::string::npos)
      << refused.error().message;
}

MoeModel SixteenExperts() { return ModelForTest().Family("qwen3-moe").Layers(2, 16, 2).Build(); }

Plan MadeFor(const MoeModel& model, const std::vector<uint32_t>& eligible) {
  const auto plan = PlanForNodes(model, {}, eligible);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? *plan : Plan();
}

TEST(NodePlan, LargerNodesOwnLongerRunsAndEveryNodeIsFilled) {
  const Plan plan = MadeFor(SixteenExperts(), {12, 6, 6});
  EXPECT_EQ(plan.scheme, "contiguous-by-node");
  EXPECT_FALSE(plan.uniform);
  EXPECT_EQ(FormatIds(plan.groups[0].owned.at(1)), "0-7");
  EXPECT_EQ(FormatIds(plan.groups[1].owned.at(1)), "8-11");
  EXPECT_EQ(FormatIds(plan.groups[2].owned.at(1)), "12-15");
  EXPECT_EQ(FormatIds(Eligible(plan, 0, 0)), "0-11");
  EXPECT_EQ(FormatIds(Eligible(plan, 1, 0)), "8-13");
  EXPECT_EQ(FormatIds(Eligible(plan, 2, 0)), "0-1,12-15");
}

TEST(NodePlan, EqualNodesAreSplitAsInAPlanByNumber) {
  const MoeModel model = SixteenExperts();
  const Plan plan = MadeFor(model, {8, 8, 8});
  EXPECT_EQ(plan.scheme, "contiguous");
  EXPECT_TRUE(plan.uniform);
  EXPECT_EQ(FormatIds(plan.groups[0].owned.at(0)), "0-5");
  EXPECT_EQ(FormatIds(Eligible(plan, 2, 0)), "0-2,11-15");
  for (size_t node = 0; node < 3; ++node) EXPECT_EQ(Eligible(plan, node, 1).size(), 8u);
}

TEST(NodePlan, ReadsBackAPlanForNodes) {
  const fixtures::TempDir dir;
  const std::string path = (dir / "plan.json").string();
  const MoeModel model = SixteenExperts();
  for (const std::vector<uint32_t>& eligible : {std::vector<uint32_t>{12, 4}, {16, 16}, {9, 7}}) {
    SCOPED_TRACE(eligible[0]);
    const Plan plan = MadeFor(model, eligible);
    const auto text = PlanText(model, plan);
    ASSERT_TRUE(text) << text.error().message;
    ASSERT_TRUE(fixtures::WriteFile(path, *text));
    const auto read = ReadPlanFile(path, model);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->scheme, plan.scheme);
    EXPECT_EQ(read->uniform, plan.uniform);
    ASSERT_EQ(read->groups.size(), 2u);
    for (size_t node = 0; node < 2; ++node) {
      EXPECT_EQ(read->groups[node].owned, plan.groups[node].owned) << node;
      for (const uint32_t layer : {0, 1})
        EXPECT_EQ(Eligible(*read, node, layer).size(), eligible[node]) << node << " " << layer;
    }
  }
}

TEST(NodePlan, NoUniformIsRefusedWhereNodesAreFilledToTheirRoom) {
  PlanOptions options;
  options.uniform = false;
  for (const std::vector<uint32_t>& eligible : {std::vector<uint32_t>{8, 8, 8}, {12, 6}}) {
    const auto plan = PlanForNodes(SixteenExperts(), options, eligible);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().message,
              "--no-uniform has no effect: every node holds as many experts as it has room for");
  }
  PlanOptions by_number = ByNumber(3, "modulo");
  EXPECT_TRUE(PlanForNodes(SixteenExperts(), by_number, {8, 8, 8})->uniform);
  by_number.uniform = false;
  EXPECT_FALSE(PlanForNodes(SixteenExperts(), by_number, {8, 8, 8})->uniform);
}

TEST(NodePlan, OtherPartitionsStaySplitByNumber) {
  const auto plan = PlanForNodes(SixteenExperts(), ByNumber(2, "modulo"), {12, 6});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->scheme, "modulo");
  EXPECT_EQ(Eligible(*plan, 0, 0).size(), 8u);
}

TEST(NodePlan, NoNodeHoldsMoreThanItsRoomBecauseOfTheOverlay) {
  const fixtures::TempDir dir;
  PlanOptions options;
  options.overlay_file = (dir / "overlay.json").string();
  ASSERT_TRUE(fixtures::WriteFile(options.overlay_file,
                                  R"({"version": "a", "layers": {"0": "0,15", "1": "7-8"}})"));
  for (const std::vector<uint32_t>& eligible :
       {std::vector<uint32_t>{9, 9}, {10, 8}, {12, 12}, {2, 16}}) {
    const auto plan = PlanForNodes(SixteenExperts(), options, eligible);
    ASSERT_TRUE(plan) << plan.error().message;
    for (size_t node = 0; node < eligible.size(); ++node) {
      for (const uint32_t layer : {0, 1})
        EXPECT_EQ(Eligible(*plan, node, layer).size(), eligible[node]) << node << " " << layer;
    }
  }
  const auto plan = PlanForNodes(SixteenExperts(), options, {9, 9});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(FormatIds(plan->groups[0].owned.at(0)), "0-7");
  EXPECT_EQ(FormatIds(Eligible(*plan, 0, 0)), "0-7,15");
  // Divided by number, node 0 would hold 0-7 and 12-15.
  ASSERT_TRUE(
      fixtures::WriteFile(options.overlay_file, R"({"version": "a", "layers": {"0": "12-15"}})"));
  const auto moved = PlanForNodes(SixteenExperts(), options, {10, 10});
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_EQ(moved->scheme, "contiguous-by-node");
  EXPECT_EQ(FormatIds(moved->groups[0].owned.at(0)), "0-5");
  EXPECT_EQ(FormatIds(moved->groups[1].owned.at(0)), "6-15");
  for (const size_t node : {0, 1}) EXPECT_EQ(Eligible(*moved, node, 0).size(), 10u);
  // Every expert is on every node, which has room for more.
  ASSERT_TRUE(
      fixtures::WriteFile(options.overlay_file, R"({"version": "a", "layers": {"0": "0-15"}})"));
  const auto everywhere = PlanForNodes(SixteenExperts(), options, {18, 20});
  ASSERT_TRUE(everywhere) << everywhere.error().message;
  EXPECT_EQ(FormatIds(Eligible(*everywhere, 1, 0)), "0-15");
  ASSERT_TRUE(
      fixtures::WriteFile(options.overlay_file, R"({"version": "a", "layers": {"0": "0,7,15"}})"));
  const auto small = PlanForNodes(SixteenExperts(), options, {2, 16});
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_EQ(FormatIds(Eligible(*small, 0, 0)), "0,7,15") << "the overlay is more than its room";
  ASSERT_TRUE(
      fixtures::WriteFile(options.overlay_file, R"({"version": "a", "layers": {"0": "0,15"}})"));
  const auto full = PlanForNodes(SixteenExperts(), options, {8, 8});
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().message,
            "nodes: layer 0: expected room for all 14 experts beside the overlay, found room for "
            "12 on all nodes together");
}

TEST(NodePlan, NodesWithoutRoomForEveryExpertAreRefused) {
  const auto plan = PlanForNodes(SixteenExperts(), {}, {8, 7});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
  EXPECT_EQ(plan.error().message,
            "nodes: layer 0: expected room for all 16 experts, found room for 15 on all nodes "
            "together");
}

}  // namespace

}  // namespace moepack
