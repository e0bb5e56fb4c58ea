#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/json.h"
#include "libshard/plan/plan_steps.h"
#include "tests/libshard/model/model_for_test.h"

namespace moepack {
namespace {

MoeModel FourLayers() { return ModelForTest().Family("qwen3-moe").Layers(4, 4, 2).Build(); }

Plan TwoStages(const MoeModel& model) {
  PlanOptions options;
  options.groups = 2;
  Plan plan = MakePlan(model, options).value();
  plan.stages = {{0, 2}, {3, 3}};
  return plan;
}

// The error of reading plan.json with these `stages`; "" if it is read.
std::string Refusal(const std::string& stages) {
  const MoeModel model = FourLayers();
  Json document = PlanToJson(model, TwoStages(model));
  document["stages"] = ParseJson("stages", stages).value();
  const fixtures::TempDir dir;
  const std::string path = (dir / "p.json").string();
  fixtures::WriteFile(path, WriteJson(document));
  const auto plan = ReadPlanFile(path, model);
  return plan ? "" : plan.error().message.substr(path.size());
}

TEST(PlanStages, ReadBackAsTheyWereWritten) {
  const MoeModel model = FourLayers();
  const Plan plan = TwoStages(model);
  EXPECT_EQ(StagesToJson(plan).dump(), R"([{"layers":"0-2"},{"layers":"3"}])");
  const auto text = PlanText(model, plan);
  ASSERT_TRUE(text) << text.error().message;
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "p.json", *text);
  const auto read = ReadPlanFile((dir / "p.json").string(), model);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->stages, plan.stages);
}

TEST(PlanStages, AreAbsentFromAPlanWithoutStages) {
  const MoeModel model = FourLayers();
  Plan plan = TwoStages(model);
  plan.stages.clear();
  EXPECT_FALSE(PlanToJson(model, plan).contains("stages"));
}

TEST(PlanStages, MustCoverAllLayersInOrder) {
  EXPECT_EQ(Refusal(R"([{"layers": "0-3"}])"), "");
  EXPECT_EQ(Refusal(R"([{"layers": "0-1"}, {"layers": "3"}])"),
            ": stage 1: layers: expected a range from 2 on, found 3-3");
  EXPECT_EQ(Refusal(R"([{"layers": "0-2"}])"),
            ": stages: expected ranges up to layer 3, found ranges up to 2");
}

TEST(PlanStages, MustBeObjectsWithOneRangeEach) {
  EXPECT_EQ(Refusal(R"([{"layers": "0,2-3"}])"),
            ": stage 0: layers: expected one range of layers, such as \"0-15\", found \"0,2-3\"");
  EXPECT_EQ(Refusal(R"([{"layers": ""}])"),
            ": stage 0: layers: expected one range of layers, such as \"0-15\", found \"\"");
  EXPECT_EQ(Refusal(R"(["0-3"])"), ": stage 0: expected an object, found \"0-3\"");
  EXPECT_NE(Refusal(R"([{"layers": "0-4294967295"}])"), "");
}

}  // namespace
}  // namespace moepack
