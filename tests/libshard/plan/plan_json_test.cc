#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/json.h"
#include "libshard/plan/plan.h"
#include "libshard/plan/plan_steps.h"
#include "tests/libshard/model/model_for_test.h"

namespace moepack {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

MoeModel Model(uint32_t experts = 8) {
  return ModelForTest()
      .Root("/data/secret-user/Tiny-MoE")
      .Family("qwen3-moe")
      .Layers(2, experts, 2)
      .Build();
}

// Two groups, a fill, an overlay and a remainder.
Plan FullPlan() {
  Plan plan;
  plan.scheme = "explicit";
  plan.layers = {{0, 8}, {1, 8}};
  plan.top_k = {{0, 2}, {1, 2}};
  plan.groups.resize(2);
  plan.groups[0].owned = {{0, {0, 1, 2}}, {1, {0, 1, 2}}};
  plan.groups[1].owned = {{0, {3, 4, 5}}, {1, {5, 6}}};
  plan.groups[1].fill = {{1, {1}}};
  plan.remainder = {{0, {6, 7}}, {1, {3, 4, 7}}};
  plan.overlays = {{"generalists-1", "", {{0, {7}}, {1, {7}}}, {}}};
  plan.uniform = true;
  return plan;
}

Json DocumentOf(const Plan& plan) {
  Json document = Json::object();
  document["partition"] = PartitionToJson(plan);
  document["overlays"] = OverlaysToJson(plan);
  return document;
}

Result<Plan> Read(const Json& document) {
  const Plan plan = FullPlan();
  return PlanFromJson("d.json", document, plan.layers, plan.top_k);
}

void ExpectEqual(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.scheme, b.scheme);
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.top_k, b.top_k);
  ASSERT_EQ(a.groups.size(), b.groups.size());
  for (size_t i = 0; i < a.groups.size(); ++i) {
    EXPECT_EQ(a.groups[i].owned, b.groups[i].owned);
    EXPECT_EQ(a.groups[i].fill, b.groups[i].fill);
  }
  EXPECT_EQ(a.overlays, b.overlays);
  EXPECT_EQ(a.remainder, b.remainder);
  EXPECT_EQ(a.uniform, b.uniform);
}

TEST(PlanJson, WritesRangesPerLayerInAFixedOrder) {
  EXPECT_EQ(PartitionToJson(FullPlan()).dump(),
            R"({"scheme":"explicit","uniform":true,"groups":[)"
            R"({"experts":{"*":"0-2"},"fill":{}},)"
            R"({"experts":{"0":"3-5","1":"5-6"},"fill":{"1":"1"}}],)"
            R"("remainder":{"0":"6-7","1":"3-4,7"}})");
  EXPECT_EQ(OverlaysToJson(FullPlan()).dump(),
            R"([{"version":"generalists-1","parent":null,"experts":{"*":"7"}}])");
}

PlacementTable TwoGroupTable() {
  PlacementTable table;
  table.sessions_by_group = {3, 4};
  table.tokens.scale = 0.5;
  table.tokens.ids = {7};
  table.tokens.scores = {-3, 3};
  return table;
}

TEST(PlanJson, CarriesThePlacementTable) {
  const fixtures::TempDir dir;
  Plan plan = FullPlan();
  plan.placement = TwoGroupTable();
  const auto text = PlanText(Model(), plan);
  ASSERT_TRUE(text) << text.error().message;
  ASSERT_TRUE(WriteTextFile((dir / "plan.json").string(), *text));
  const auto read = ReadPlanFile((dir / "plan.json").string(), Model());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->placement, plan.placement);
  EXPECT_EQ(PlanToJson(Model(), FullPlan()).contains("placement"), false);
}

TEST(PlanJson, APlacementWithOtherGroupsIsRefused) {
  Plan plan = FullPlan();
  plan.placement = TwoGroupTable();
  plan.placement->sessions_by_group.push_back(1);
  const auto text = PlanText(Model(), plan);
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message,
              HasSubstr("plan.json: placement: sessions: expected 2 groups, found 3"));
}

TEST(PlanJson, WritesNoOverlayAsAnEmptyArray) {
  Plan plan = FullPlan();
  plan.overlays.clear();
  EXPECT_EQ(OverlaysToJson(plan).dump(), "[]");
}

TEST(PlanJson, ReadsBackWhatItWrites) {
  const auto plan = Read(DocumentOf(FullPlan()));
  ASSERT_TRUE(plan) << plan.error().message;
  ExpectEqual(*plan, FullPlan());
}

TEST(PlanJson, ReadsAnOverlayWithoutParent) {
  Json document = DocumentOf(FullPlan());
  document["overlays"][0].erase("parent");
  const auto plan = Read(document);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->overlays, FullPlan().overlays);
}

TEST(PlanJson, IgnoresMembersOfLaterMinorVersions) {
  Json document = DocumentOf(FullPlan());
  document["routing"] = Json::object();
  document["partition"]["expected_capture"] = 0.93;
  document["partition"]["groups"][0]["name"] = "a";
  document["overlays"][0]["made_from"] = "statistics";
  const auto plan = Read(document);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(DocumentOf(*plan), DocumentOf(FullPlan()));
}

// Sets one value of a valid document, by JSON pointer; the text null erases it.
struct Break {
  const char* pointer;
  const char* value;
  const char* message;
};

TEST(PlanJson, RefusesMalformedDocuments) {
  const Break cases[] = {
      {"/partition", "[]", "d.json: partition: expected an object"},
      {"/partition/scheme", "1", "d.json: partition: scheme: expected a string"},
      {"/partition/scheme", "\"a/b\"", "partition: scheme: expected 1 to 64"},
      {"/partition/uniform", "1", "partition: uniform: expected true or false"},
      {"/partition/groups", "{}", "partition: groups: expected an array"},
      {"/partition/groups", "[]", "partition: groups: expected at least 1, found 0"},
      {"/partition/groups/0", "3", "partition: group 0: expected an object"},
      {"/partition/groups/1/experts", "\"0-3\"", "partition: group 1: experts: expected an object"},
      {"/partition/groups/1/fill", "null", "partition: group 1: fill: expected an object"},
      {"/partition/groups/1/fill", R"({"1":"8"})",
       "group 1: fill: layer 1: expected numbers from 0"},
      {"/partition/groups/1/fill", R"({"7":"1"})", "group 1: fill: layer 7: expected a layer"},
      {"/partition/groups/0/experts", R"({"*":"0-3"})", "expert 3: expected one group"},
      {"/partition/groups/0/experts", R"({"*":"0-1"})", "remainder: expected the experts of no"},
      {"/partition/remainder", "null", "partition: remainder: expected an object"},
      {"/overlays", "null", "d.json: overlays: expected an array"},
      {"/overlays", "[1]", "d.json: overlays: expected an object"},
      {"/overlays", "[{}, {}]", "overlays: version: expected a string"},
      {"/overlays/0/version", "null", "overlays: version: expected a string"},
      {"/overlays/0/version", "\"..\"", "overlay \"..\": version: expected 1 to 64"},
      {"/overlays/0/parent", "\"\"", "overlays: parent: expected a version or null"},
      {"/overlays/0/parent", "\"a b\"", "parent: expected 1 to 64"},
      {"/overlays/0/parent", "\"generalists-1\"", "parent: expected another version, found itself"},
      {"/overlays/1", R"({"version": "generalists-1", "experts": {"*": "7"}})",
       "overlay \"generalists-1\": version: expected once, found twice"},
      {"/overlays/0/fill", "{}", "overlays: fill: expected an array"},
      {"/overlays/0/fill", "[7]", "overlays: fill of group 0: expected an object"},
      {"/overlays/0/fill", R"([{"*": "5"}])",
       "fill: expected one entry for each of the 2 groups, found 1"},
      {"/overlays/0/fill", R"([{"*": "5"}, {"1": "9"}])",
       "fill of group 1: layer 1: expected numbers from 0 to 7"},
      {"/overlays/0/fill", R"([{"0": "2"}, {}])",
       "fill of group 0: layer 0: expected experts of other groups that are not in the overlay, "
       "found 2"},
      {"/overlays/0/fill", R"([{"0": "6"}, {}])", "not in the overlay, found 6"},
      {"/overlays/0/fill", R"([{"0": "7"}, {}])", "not in the overlay, found 7"},
      {"/overlays/0/fill", R"([{"0": "5"}, {}])", "uniform: expected one eligible count"},
      {"/overlays/0/experts", "{}", "overlays: experts: expected at least one expert id"},
      {"/overlays/0/experts", R"({"0":"7"})", "uniform: expected one eligible count"},
  };
  for (const Break& broken : cases) {
    Json document = DocumentOf(FullPlan());
    document[Json::json_pointer(broken.pointer)] = Json::parse(broken.value);
    const auto plan = Read(document);
    ASSERT_FALSE(plan) << broken.pointer << " " << broken.value;
    EXPECT_EQ(plan.error().code, Code::kCorrupt);
    EXPECT_THAT(plan.error().message, HasSubstr(broken.message));
  }
  EXPECT_THAT(Read(Json::array()).error().message, HasSubstr("d.json: expected an object"));
}

class PlanFile : public ::testing::Test {
 protected:
  Result<Plan> ReadBack(const Json& document, const MoeModel& model) {
    const std::string path = (directory_ / "plan.json").string();
    EXPECT_TRUE(WriteTextFile(path, WriteJson(document)));
    return ReadPlanFile(path, model);
  }
  Error ErrorOf(const Json& document) {
    auto plan = ReadBack(document, Model());
    EXPECT_FALSE(plan.has_value());
    return plan ? Error{Code::kIo, "no error", ""} : std::move(plan).error();
  }

 private:
  fixtures::TempDir directory_;
};

TEST_F(PlanFile, ReadsBackWhatMakePlanDecided) {
  PlanOptions options;
  options.groups = 3;
  const Plan plan = MakePlan(Model(), options).value();
  const auto read = ReadBack(PlanToJson(Model(), plan), Model());
  ASSERT_TRUE(read) << read.error().message;
  ExpectEqual(*read, plan);
}

TEST_F(PlanFile, TreatsAnEditedPartitionAsExplicit) {
  PlanOptions options;
  options.groups = 2;
  Plan plan = MakePlan(Model(), options).value();
  EXPECT_EQ(ReadBack(PlanToJson(Model(), plan), Model())->scheme, "contiguous");
  for (const uint32_t layer : {0u, 1u}) {
    std::swap(plan.groups[0].owned[layer].back(), plan.groups[1].owned[layer].front());
  }
  const auto edited = ReadBack(PlanToJson(Model(), plan), Model());
  ASSERT_TRUE(edited) << edited.error().message;
  EXPECT_EQ(edited->scheme, "explicit");
}

TEST_F(PlanFile, NamesTheModelButNotItsLocation) {
  const Json document = PlanToJson(Model(), FullPlan());
  EXPECT_EQ(document["format"], "moepack-plan");
  EXPECT_EQ(document["format_version"], "1.0");
  EXPECT_EQ(document["model"]["family"], "qwen3-moe");
  EXPECT_EQ(document["model"]["version"], Model().Version(""));
  EXPECT_EQ(document["model"]["source"], "Tiny-MoE");
  EXPECT_THAT(document.dump(), Not(HasSubstr("secret-user")));
}

TEST_F(PlanFile, NamesTheDirectoryEvenIfThePathEndsInASlashOrADot) {
  for (const char* root : {"/data/Tiny-MoE/", "/data/Tiny-MoE/.", "/data/x/../Tiny-MoE"}) {
    const MoeModel model = ModelForTest().Root(root).Layers(2, 8, 2).Build();
    EXPECT_EQ(PlanToJson(model, FullPlan())["model"]["source"], "Tiny-MoE") << root;
  }
}

TEST_F(PlanFile, RefusesAPlanOfAnotherModelAndNamesBothVersions) {
  Json document = PlanToJson(Model(), FullPlan());
  document["model"]["version"] = "0123456789abcdef";
  const Error error = ErrorOf(document);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr(Model().Version("")));
  EXPECT_THAT(error.message, HasSubstr("\"0123456789abcdef\""));
  EXPECT_THAT(error.hint, HasSubstr("moepack help plan"));
}

TEST_F(PlanFile, RefusesOtherFormatsAndLaterMajorVersions) {
  Json document = PlanToJson(Model(), FullPlan());
  document["format_version"] = "1.7";
  EXPECT_TRUE(ReadBack(document, Model()));
  document["format_version"] = "2.0";
  EXPECT_EQ(ErrorOf(document).code, Code::kUnsupported);
  document["format_version"] = "1.0x";
  EXPECT_EQ(ErrorOf(document).code, Code::kCorrupt);
  document["format"] = "moepack-distribution";
  EXPECT_THAT(ErrorOf(document).message, HasSubstr("format: expected \"moepack-plan\""));
  EXPECT_EQ(ErrorOf(Json::array()).code, Code::kCorrupt);
  EXPECT_EQ(ReadPlanFile("/nonexistent/plan.json", Model()).error().code, Code::kNotFound);
}

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
