#include "libshard/fit/fit_nodes.h"

#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/libshard/fit/model_to_fit.h"

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

}  // namespace
}  // namespace moepack
