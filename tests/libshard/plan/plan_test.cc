#include "libshard/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/libshard/format/bent_checkpoint.h"
#include "tests/libshard/model/model_for_test.h"
#include "tests/libshard/plan/plan_sample.h"

namespace moepack {
namespace {

const TypePlan kPinned = {{"^blk\\.(0|1)\\.attn_k\\.weight$=q5_K"}, 6000, 5990, 0.5, 0.25};

TEST(TypePlan, IsReadAsItWasWritten) {
  const auto read = TypePlanFromJson("p: types", TypePlanToJson(kPinned));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, kPinned);
}

std::string TypeRefusal(const char* key, const Json& value) {
  Json document = TypePlanToJson(kPinned);
  document[key] = value;
  const auto read = TypePlanFromJson("p: types", document);
  EXPECT_FALSE(read) << key;
  if (read) return "";
  EXPECT_EQ(read.error().code, Code::kCorrupt);
  return read.error().message;
}

TEST(TypePlan, BadMembersAreNamed) {
  EXPECT_EQ(TypeRefusal("bytes", uint64_t{6001}),
            "p: types: bytes: expected at most the budget, found 6001");
  EXPECT_EQ(TypeRefusal("damage_bound", 0.75),
            "p: types: damage_bound: expected at most the damage, found 0.75");
  EXPECT_EQ(TypeRefusal("damage", -1.0), "p: types: damage: expected at least 0, found -1.0");
  EXPECT_EQ(TypeRefusal("tensor_types", Json::array({7})),
            "p: types: tensor_types: expected REGEX=TYPE, found 7");
  Json rules = Json::array();
  for (int i = 0; i < 20001; ++i) rules.push_back("a=f16");
  EXPECT_EQ(TypeRefusal("tensor_types", rules),
            "p: types: tensor_types: expected at most 20000 rules, found 20001");
}

using ::testing::HasSubstr;

class PlanTest : public PlanFromFiles {};

Error ErrorOf(const MoeModel& model, const PlanOptions& options) {
  auto plan = MakePlan(model, options);
  EXPECT_FALSE(plan.has_value());
  return plan ? Error{Code::kIo, "no error", ""} : std::move(plan).error();
}

std::string OwnedText(const Plan& plan, size_t group, uint32_t layer) {
  return FormatIds(IdsOf(plan.groups[group].owned, layer));
}
std::string FillText(const Plan& plan, size_t group, uint32_t layer) {
  return FormatIds(IdsOf(plan.groups[group].fill, layer));
}

// Checks every rule of a plan in the slow way.
void ExpectSound(const Plan& plan) {
  EXPECT_TRUE(CheckPlan("plan", plan));
  for (const auto& [layer, experts] : plan.layers) {
    std::multiset<uint32_t> held(IdsOf(plan.remainder, layer).begin(),
                                 IdsOf(plan.remainder, layer).end());
    for (const GroupPlan& group : plan.groups)
      held.insert(IdsOf(group.owned, layer).begin(), IdsOf(group.owned, layer).end());
    EXPECT_EQ(held.size(), experts);
    for (uint32_t id = 0; id < experts; ++id) EXPECT_EQ(held.count(id), 1u) << id;
  }
}

TEST_F(PlanTest, ContiguousCutsRunsOfNearlyEqualLengthLongerOnesFirst) {
  PlanOptions options = Groups(3);
  options.uniform = false;
  const Plan plan = MakePlan(ModelForTest().Layers(2, 16, 2).Build(), options).value();
  for (const uint32_t layer : {0u, 1u}) {
    EXPECT_EQ(OwnedText(plan, 0, layer), "0-5");
    EXPECT_EQ(OwnedText(plan, 1, layer), "6-10");
    EXPECT_EQ(OwnedText(plan, 2, layer), "11-15");
  }
  EXPECT_FALSE(plan.uniform);
  EXPECT_EQ(plan.scheme, "contiguous");
  ExpectSound(plan);
}

TEST_F(PlanTest, ModuloAssignsExpertsRoundRobin) {
  PlanOptions options = Groups(3, "modulo");
  options.uniform = false;
  const Plan plan = MakePlan(ModelForTest().Layers(1, 8, 2).Build(), options).value();
  EXPECT_EQ(OwnedText(plan, 0, 0), "0,3,6");
  EXPECT_EQ(OwnedText(plan, 1, 0), "1,4,7");
  EXPECT_EQ(OwnedText(plan, 2, 0), "2,5");
  ExpectSound(plan);
}

TEST_F(PlanTest, EveryGroupCountOfEveryRuleGivesAValidUniformPlan) {
  const MoeModel model = ModelForTest().Layers(2, 12, 1).Build();
  for (const char* partition : {"contiguous", "modulo"}) {
    for (uint32_t groups = 1; groups <= 12; ++groups) {
      const auto plan = MakePlan(model, Groups(groups, partition));
      ASSERT_TRUE(plan) << groups;
      EXPECT_TRUE(plan->uniform);
      ExpectSound(*plan);
      EXPECT_EQ(Eligible(*plan, groups - 1, 1).size(), (12 + groups - 1) / groups);
    }
  }
}

TEST_F(PlanTest, FillTakesTheIdsThatFollowTheGroupsLastOneCyclically) {
  const MoeModel model = ModelForTest().Layers(1, 16, 2).Build();
  const Plan contiguous = MakePlan(model, Groups(3)).value();
  EXPECT_EQ(FillText(contiguous, 0, 0), "");
  EXPECT_EQ(FillText(contiguous, 1, 0), "11");
  EXPECT_EQ(FillText(contiguous, 2, 0), "0");
  const Plan modulo = MakePlan(model, Groups(3, "modulo")).value();
  EXPECT_EQ(FillText(modulo, 1, 0), "14");  // 1,4,7,10,13
  EXPECT_EQ(FillText(modulo, 2, 0), "15");  // 2,5,8,11,14
}

TEST_F(PlanTest, AnOverlayExpertThatAGroupOwnsCountsOnceAndAnotherFillsItsPlace) {
  PlanOptions options = Groups(2);
  options.overlay_file = Overlay(R"({"version": "v1", "layers": {"*": "0,1,4"}})");
  const Plan plan = MakePlan(ModelForTest().Layers(1, 8, 2).Build(), options).value();
  // Group 0 owns 0-3 and adds 4; group 1 owns 4-7 and adds 0 and 1.
  EXPECT_EQ(FormatIds(Eligible(plan, 0, 0)), "0-5");
  EXPECT_EQ(FillText(plan, 0, 0), "");
  EXPECT_EQ(FormatIds(IdsOf(FillOf(*plan.current_overlay(), 0), 0)), "5");
  EXPECT_EQ(FormatIds(Eligible(plan, 1, 0)), "0-1,4-7");
  EXPECT_EQ(FillText(plan, 1, 0), "");
  EXPECT_EQ(FormatIds(IdsOf(FillOf(*plan.current_overlay(), 1), 0)), "");
  EXPECT_EQ(plan.current_overlay()->version, "v1");
  EXPECT_TRUE(plan.uniform);
  ExpectSound(plan);
}

TEST_F(PlanTest, LayersOfDifferentSizeAreFilledToOneCountWherePossible) {
  const MoeModel model = ModelForTest()
                             .Layer({3, 8, 2, 10, false})
                             .Layer({4, 12, 2, 10, false})
                             .Layer({9, 12, 2, 10, true})
                             .Build();
  const Plan plan = MakePlan(model, Groups(2)).value();
  EXPECT_EQ(FormatIds(Eligible(plan, 0, 3)), "0-5");
  EXPECT_EQ(FormatIds(Eligible(plan, 1, 3)), "0-1,4-7");
  EXPECT_EQ(FormatIds(Eligible(plan, 1, 9)), "6-11");
  ExpectSound(plan);
}

// --no-uniform and --eligible cannot be used together here, so the hint must not mention it.
TEST_F(PlanTest, RefusesMoreEligibleExpertsThanThereAre) {
  const MoeModel model = ModelForTest().Layers(1, 16, 2).Build();
  PlanOptions options = Groups(2);
  options.eligible = 17;
  const Error beyond = ErrorOf(model, options);
  EXPECT_EQ(beyond.code, Code::kInvalidArgument);
  EXPECT_EQ(beyond.message,
            "plan: layer 0: eligible experts: expected at most 16, all that the layer has, found "
            "17");
  EXPECT_EQ(beyond.hint, "lower --eligible");
  options = Groups(2, Explicit(R"({"groups": [{"*": "0-5"}, {"*": "6-11"}]})"));
  options.eligible = 14;
  const Error remainder = ErrorOf(model, options);
  EXPECT_THAT(remainder.message, HasSubstr("expected 14, found 12"));
  EXPECT_EQ(remainder.hint, "lower --eligible");
}

TEST_F(PlanTest, RefusesToFillALayerBeyondItsExperts) {
  const MoeModel model =
      ModelForTest().Layer({0, 4, 2, 10, false}).Layer({1, 64, 2, 10, false}).Build();
  const Error error = ErrorOf(model, Groups(2));
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("layer 0: experts to fill every group up to one count: "
                                       "expected 32, found 4"));
  EXPECT_THAT(error.hint, HasSubstr("--no-uniform"));
  PlanOptions loose = Groups(2);
  loose.uniform = false;
  EXPECT_TRUE(MakePlan(model, loose));
}

TEST_F(PlanTest, ExplicitGroupsComeFromTheFileAndTheRestIsTheRemainder) {
  PlanOptions options = Groups(
      0, Explicit(R"({"groups": [{"*": "0-1", "1": "0,2"}, {"*": "4-5"}], "scheme": "by-hand"})"));
  const Plan plan = MakePlan(ModelForTest().Layers(2, 8, 2).Build(), options).value();
  EXPECT_EQ(plan.scheme, "by-hand");
  EXPECT_EQ(OwnedText(plan, 0, 0), "0-1");
  EXPECT_EQ(OwnedText(plan, 0, 1), "0,2");
  EXPECT_EQ(FormatIds(IdsOf(plan.remainder, 0)), "2-3,6-7");
  EXPECT_EQ(FormatIds(IdsOf(plan.remainder, 1)), "1,3,6-7");
  ExpectSound(plan);
}

TEST_F(PlanTest, FillNeverUsesTheRemainder) {
  PlanOptions options = Groups(2, Explicit(R"({"groups": [{"0": "0-2"}, {"0": "6"}]})"));
  const Plan plan = MakePlan(ModelForTest().Layers(1, 8, 1).Build(), options).value();
  EXPECT_EQ(FillText(plan, 1, 0), "0-1");  // not 7, which is on no node
  EXPECT_EQ(plan.scheme, "explicit");
  ExpectSound(plan);
}

TEST_F(PlanTest, AGroupWithoutExpertsInALayerIsFilledFromTheStart) {
  PlanOptions options =
      Groups(2, Explicit(R"({"groups": [{"*": "0-7"}, {"0": "8-15", "1": ""}]})"));
  const Plan plan = MakePlan(ModelForTest().Layers(2, 16, 2).Build(), options).value();
  EXPECT_EQ(FillText(plan, 1, 1), "0-7");
}

TEST_F(PlanTest, RefusesGroupsThatDoNotFitTheModel) {
  const MoeModel model =
      ModelForTest().Layer({0, 16, 2, 10, false}).Layer({1, 8, 2, 10, false}).Build();
  const Error none = ErrorOf(model, Groups(0));
  EXPECT_EQ(none.code, Code::kInvalidArgument);
  EXPECT_THAT(none.message, HasSubstr("groups: expected at least 1, found 0"));
  const Error many = ErrorOf(model, Groups(9));
  EXPECT_EQ(many.code, Code::kInvalidArgument);
  EXPECT_THAT(many.message, HasSubstr("groups: expected at most 8"));
  EXPECT_THAT(many.message, HasSubstr("found 9"));
}

// 4 layers of 65,536 experts: with 257 groups, the reader of distribution.json would refuse the
// plan.
TEST_F(PlanTest, RefusesMoreGroupsTimesExpertsThanAPlanMayHave) {
  const MoeModel model = ModelForTest().Layers(4, 1u << 16, 2).Build();
  const Error many = ErrorOf(model, Groups(257));
  EXPECT_EQ(many.code, Code::kInvalidArgument);
  EXPECT_THAT(many.message, HasSubstr("plan: groups: expected at most 256 for 262,144 experts in "
                                      "all layers, found 257"));
}

TEST_F(PlanTest, RefusesAnUnknownPartitionAndListsTheKnownOnes) {
  const Error error = ErrorOf(ModelForTest().Layers(1, 8, 2).Build(), Groups(2, "random"));
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(
      error.message,
      HasSubstr("expected contiguous, modulo, explicit:FILE, ranked, session, coactivation or "
                "same, found \"random\""));
}

TEST_F(PlanTest, RefusesAModelWithoutTopK) {
  const Error error = ErrorOf(ModelForTest().Layers(1, 8, 0).Build(), Groups(2));
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("layer 0: experts per token"));
  EXPECT_THAT(error.hint, HasSubstr("config.json beside the checkpoint"));
}

// The file is at fault then, and not the command line.
TEST_F(PlanTest, AFileWithoutTopKIsCorrupt) {
  BentCheckpoint checkpoint("qwen3-moe");
  checkpoint.config.erase("num_experts_per_tok");
  const std::string path = checkpoint.Write().string();
  const auto model = MoeModel::Open(path);
  ASSERT_TRUE(model) << model.error().message;
  const Error error = ErrorOf(*model, Groups(2));
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.message, path +
                               "/config.json: experts per token: expected a number for layer 0, "
                               "found none");
}

TEST_F(PlanTest, RefusesFewerEligibleExpertsThanTheRouterPicks) {
  const MoeModel model = ModelForTest().Layers(1, 16, 6).Build();
  PlanOptions options = Groups(4);
  const Error error = ErrorOf(model, options);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("group 0: layer 0: eligible experts: expected at least 6"));
  EXPECT_THAT(error.message, HasSubstr("found 4"));
  EXPECT_THAT(error.hint, HasSubstr("fewer groups or a larger overlay"));
  // Group 0 owns both 0 and 1, so only the overlay's fill brings it to 6.
  options.overlay_file = Overlay(R"({"version": "v1", "layers": {"*": "0-1"}})");
  EXPECT_TRUE(MakePlan(model, options));
}

TEST_F(PlanTest, RefusesOverlayFilesThatBreakTheirFormat) {
  const MoeModel model = ModelForTest().Layers(2, 8, 2).Build();
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", "expected an object, found an array"},
      {R"({"version": "v1", "layers": {"*": "0"}, "layer": {}})",
       "expected no keys but version, layers, found \"layer\""},
      {R"({"layers": {"*": "0"}})", "version: expected a string"},
      {R"({"version": "", "layers": {"*": "0"}})", "version: expected 1 to 64"},
      {R"({"version": ".hidden", "layers": {"*": "0"}})", "the first not a dot"},
      {R"({"version": "../up", "layers": {"*": "0"}})", "version: expected 1 to 64"},
      {R"({"version": "a/b", "layers": {"*": "0"}})", "version: expected 1 to 64"},
      {R"({"version": "v1"})", "layers: expected an object"},
      {R"({"version": "v1", "layers": {}})", "layers: expected at least one expert id"},
      {R"({"version": "v1", "layers": {"2": "0"}})", "layer 2: expected a layer with routed"},
      {R"({"version": "v1", "layers": {"1": "8"}})", "layer 1: expected numbers from 0 to 7"},
  };
  for (const auto& [text, message] : cases) {
    PlanOptions options = Groups(2);
    options.overlay_file = Overlay(text);
    const Error error = ErrorOf(model, options);
    EXPECT_EQ(error.code, Code::kInvalidArgument) << text;
    EXPECT_THAT(error.message, HasSubstr("overlay.json")) << text;
    EXPECT_THAT(error.message, HasSubstr(message)) << text;
  }
}

TEST_F(PlanTest, TakesOverlayVersionsOfUpTo64Characters) {
  const MoeModel model = ModelForTest().Layers(1, 8, 2).Build();
  PlanOptions options = Groups(2);
  const auto overlay = [&](const std::string& version) {
    return Overlay(R"({"version": ")" + version + R"(", "layers": {"*": "0"}})");
  };
  options.overlay_file = overlay(std::string(64, 'a'));
  const auto longest = MakePlan(model, options);
  ASSERT_TRUE(longest) << longest.error().message;
  EXPECT_EQ(longest->current_overlay()->version, std::string(64, 'a'));
  options.overlay_file = overlay(std::string(65, 'a'));
  const auto too_long = MakePlan(model, options);
  ASSERT_FALSE(too_long);
  EXPECT_THAT(too_long.error().message,
              HasSubstr("version: expected 1 to 64 of [A-Za-z0-9._-], the first not"));
  for (const char* word : {"none", "auto"}) {
    options.overlay_file = overlay(word);
    const auto reserved = MakePlan(model, options);
    ASSERT_FALSE(reserved) << word;
    EXPECT_THAT(reserved.error().message,
                HasSubstr("version: expected a name other than none and auto"));
  }
}

TEST_F(PlanTest, RefusesFilesThatAreMissingOrNotJson) {
  const MoeModel model = ModelForTest().Layers(1, 8, 2).Build();
  PlanOptions options = Groups(2);
  options.overlay_file = "/nonexistent/overlay.json";
  EXPECT_EQ(ErrorOf(model, options).code, Code::kNotFound);
  options.overlay_file = Overlay("{");
  EXPECT_EQ(ErrorOf(model, options).code, Code::kCorrupt);
  EXPECT_EQ(ErrorOf(model, Groups(2, "explicit:/nonexistent/groups.json")).code, Code::kNotFound);
}

TEST_F(PlanTest, RefusesExplicitFilesThatBreakTheirFormat) {
  const MoeModel model = ModelForTest().Layers(2, 8, 2).Build();
  const std::pair<const char*, const char*> cases[] = {
      {R"(7)", "expected an object, found 7"},
      {R"({"groups": [{"*": "0-7"}], "group": 1})",
       "expected no keys but groups, scheme, found \"group\""},
      {R"({"scheme": "x"})", "groups: expected an array"},
      {R"({"groups": []})", "groups: expected at least 1, found 0"},
      {R"({"groups": [{"*": "0-7"}], "scheme": "a b"})", "scheme: expected 1 to 64"},
      {R"({"groups": [{"*": "0-7"}], "scheme": 1})", "scheme: expected a string"},
      {R"({"groups": ["0-7"]})", "group 0: expected an object of expert ids by layer"},
      {R"({"groups": [{"*": "0-8"}]})", "group 0: layer 0: expected numbers from 0 to 7"},
      {R"({"groups": [{"*": "0-3"}, {"*": "3-7"}]})",
       "layer 0: expert 3: expected one group, found groups 0 and 1"},
      {R"({"groups": [{"0": "0-3"}, {"0": "4-7"}]})",
       "layer 1: expected experts in some group, found none"},
      {R"({"groups": [{}, {}, {}, {}, {}, {}, {}, {}, {}]})", "groups: expected at most 8"},
  };
  for (const auto& [text, message] : cases) {
    const Error error = ErrorOf(model, Groups(0, Explicit(text)));
    EXPECT_EQ(error.code, Code::kInvalidArgument) << text;
    EXPECT_THAT(error.message, HasSubstr("groups.json")) << text;
    EXPECT_THAT(error.message, HasSubstr(message)) << text;
  }
}

TEST_F(PlanTest, RefusesAnExplicitFileWithAnotherNumberOfGroups) {
  const MoeModel model = ModelForTest().Layers(1, 8, 2).Build();
  const std::string file = Explicit(R"({"groups": [{"*": "0-3"}, {"*": "4-7"}]})");
  EXPECT_THAT(ErrorOf(model, Groups(3, file)).message,
              HasSubstr("groups: expected 3 as --groups says, found 2"));
  EXPECT_TRUE(MakePlan(model, Groups(2, file)));
}

}  // namespace

}  // namespace moepack
