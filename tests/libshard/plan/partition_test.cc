#include "libshard/plan/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "tests/libshard/model/model_for_test.h"
#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

using testing::HasSubstr;

// The model of Planted: layers 0, 2, 4, ...
MoeModel PlantedModel(const Planted& planted) {
  ModelForTest model;
  for (uint32_t layer = 0; layer < planted.layers; ++layer)
    model.Layer({2 * layer, planted.experts, 2, 10, false});
  return model.Build();
}

PlanOptions ScoredOptions(const std::string& partition, ExpertScores scores) {
  PlanOptions options;
  options.groups = 3;
  options.partition = partition;
  options.scores = std::make_shared<const ExpertScores>(std::move(scores));
  return options;
}

Error ErrorOfScored(const PlanOptions& options, const Planted& planted = {}) {
  const auto plan = MakePlan(PlantedModel(planted), options);
  EXPECT_FALSE(plan);
  return plan ? Error{Code::kIo, "no error"} : plan.error();
}

// Pairs derived from the scores: experts that are used in the same sessions.
ExpertScores WithPairsOf(ExpertScores scores) {
  for (size_t layer = 0; layer < scores.layers.size(); ++layer) {
    const uint32_t count = scores.layers[layer].expert_count;
    scores.co_selection.emplace_back(PairCount(count));
    for (uint32_t i = 0; i < count; ++i) {
      for (uint32_t j = i + 1; j < count; ++j) {
        double together = 0;
        for (const SessionScores& session : scores.sessions) {
          const float* const row = session.scores.data() + scores.Offset(layer);
          together += std::min(row[i], row[j]);
        }
        scores.co_selection.back()[PairIndex(i, j, count)] = static_cast<uint64_t>(together);
      }
    }
  }
  return scores;
}

TEST(PlansByScores, AreValidAndUniformForEveryStrategy) {
  const Planted planted;
  const MoeModel model = PlantedModel(planted);
  for (const char* partition : {"ranked", "coactivation", "session", "same"}) {
    PlanOptions options = ScoredOptions(partition, WithPairsOf(planted.Make()));
    for (const auto eligible : {std::optional<uint32_t>(), std::optional<uint32_t>(11)}) {
      options.eligible = eligible;
      const Plan plan = MakePlan(model, options).value();
      ASSERT_TRUE(CheckPlan("plan", plan)) << partition;
      EXPECT_TRUE(plan.uniform) << partition;
      EXPECT_EQ(plan.scheme, partition);
      for (size_t group = 0; group < 3; ++group)
        EXPECT_EQ(Eligible(plan, group, 4).size(), eligible.value_or(8)) << partition;
      ASSERT_TRUE(plan.expectation) << partition;
      EXPECT_EQ(MakePlan(model, options)->groups[2].owned, plan.groups[2].owned) << partition;
      const std::string text = PlanText(model, plan).value();
      EXPECT_THAT(text, HasSubstr("\"expectation\"")) << partition;
    }
  }
}

TEST(PlansByScores, AssignAnExpertToTheGroupThatUsesItMost) {
  // Two kinds of sessions; expert 0 is used by both, and most by the second.
  const ExpertScores scores =
      ScoresOf({{0, 6, 1}},
               {{4, 9, 9, 1, 0, 0}, {4, 8, 9, 0, 1, 0}, {9, 0, 1, 9, 8, 0}, {9, 1, 0, 8, 9, 0}});
  PlanOptions options = ScoredOptions("session", scores);
  options.groups = 2;
  options.eligible = 3;
  options.held_out = 0;
  const Plan plan = MakePlan(ModelForTest().Layers(1, 6, 1).Build(), options).value();
  EXPECT_EQ(IdsOf(plan.groups[0].owned, 0), (ExpertIds{1, 2}));
  EXPECT_EQ(IdsOf(plan.groups[0].fill, 0), (ExpertIds{0}));
  EXPECT_EQ(IdsOf(plan.groups[1].owned, 0), (ExpertIds{0, 3, 4}));
  EXPECT_EQ(IdsOf(plan.remainder, 0), (ExpertIds{5}));
}

TEST(PlansByScores, TheSameSetOnEveryNodeIsOwnedByAllGroups) {
  PlanOptions options = ScoredOptions("same", Planted{}.Make());
  const Plan plan = MakePlan(PlantedModel({}), options).value();
  for (const GroupPlan& group : plan.groups) {
    EXPECT_GE(IdsOf(group.owned, 0).size(), 1u);
    EXPECT_EQ(HeldBy(group), HeldBy(plan.groups[0]));
  }
}

TEST(PlansByScores, SuperExpertsAreOnEveryNodeUnlessRefused) {
  ExpertScores scores = Planted{}.Make();
  const Plan without = MakePlan(PlantedModel({}), ScoredOptions("ranked", scores)).value();
  ExpertIds absent;  // from group 0
  for (uint32_t id = 0; id < 24; ++id) {
    if (!Contains(Eligible(without, 0, 2), id)) absent.push_back(id);
  }
  scores.super_experts[2] = {absent[1], absent[0], absent[0]};
  PlanOptions options = ScoredOptions("ranked", scores);
  const Plan with = MakePlan(PlantedModel({}), options).value();
  for (size_t group = 0; group < 3; ++group) {
    EXPECT_TRUE(Contains(Eligible(with, group, 2), absent[0]));
    EXPECT_TRUE(Contains(Eligible(with, group, 2), absent[1]));
  }
  EXPECT_EQ(with.expectation->pinned, (LayerExperts{{2, {absent[0], absent[1]}}}));
  options.pin_super = false;
  EXPECT_EQ(MakePlan(PlantedModel({}), options)->groups[0].owned, without.groups[0].owned);
}

TEST(PlansByScores, PinTheExpertsListedInAFile) {
  const fixtures::TempDir directory;
  const std::string path = directory / "pins.json";
  ASSERT_TRUE(WriteTextFile(path, R"({"layers": {"*": "3", "4": "5-6"}})"));
  PlanOptions options = ScoredOptions("session", Planted{}.Make());
  options.pin_file = path;
  const Plan plan = MakePlan(PlantedModel({}), options).value();
  for (size_t group = 0; group < 3; ++group) {
    EXPECT_TRUE(Contains(Eligible(plan, group, 0), 3));
    EXPECT_TRUE(Contains(Eligible(plan, group, 4), 5));
  }
  ASSERT_TRUE(WriteTextFile(path, R"({"layers": {"*": "24"}})"));
  EXPECT_EQ(ErrorOfScored(options).code, Code::kInvalidArgument);
  ASSERT_TRUE(WriteTextFile(path, R"({"layers": {}})"));
  EXPECT_THAT(ErrorOfScored(options).message,
              HasSubstr("pins.json: layers: expected at least one expert id, found"));
  ASSERT_TRUE(WriteTextFile(path, R"({"groups": []})"));
  EXPECT_THAT(ErrorOfScored(options).message,
              HasSubstr("pins.json: expected no keys but version, layers, found \"groups\""));
}

TEST(PlansByScores, TheOverlayCountsAsHeldAndIsInNoGroup) {
  const fixtures::TempDir directory;
  const std::string path = directory / "overlay.json";
  ASSERT_TRUE(WriteTextFile(path, R"({"version": "v1", "layers": {"0": "3,4", "2": "7"}})"));
  PlanOptions options = ScoredOptions("session", Planted{}.Make());
  options.overlay_file = path;
  options.eligible = 10;
  const Plan plan = MakePlan(PlantedModel({}), options).value();
  ASSERT_TRUE(CheckPlan("plan", plan));
  EXPECT_TRUE(plan.uniform);
  for (const GroupPlan& group : plan.groups) {
    EXPECT_FALSE(Contains(IdsOf(HeldBy(group), 0), 3));
    EXPECT_EQ(IdsOf(HeldBy(group), 0).size(), 8u);
  }
  EXPECT_EQ(Eligible(plan, 1, 2).size(), 10u);
}

TEST(PlansByScores, AllowDifferentRoomPerNode) {
  PlanOptions options = ScoredOptions("session", Planted{}.Make());
  options.rooms = {std::vector<uint32_t>(6, 4), std::vector<uint32_t>(6, 8),
                   std::vector<uint32_t>(6, 12)};
  const Plan plan = MakePlan(PlantedModel({}), options).value();
  EXPECT_FALSE(plan.uniform);
  for (size_t group = 0; group < 3; ++group)
    EXPECT_EQ(Eligible(plan, group, 6).size(), 4 + 4 * group);
}

TEST(PlansByScores, AGroupMustHaveRoomForTopKAndThePinnedExperts) {
  ExpertScores scores = Planted{}.Make();
  scores.super_experts[2] = {1, 2, 3};
  PlanOptions options = ScoredOptions("session", scores);
  options.eligible = 2;
  const Error pinned = ErrorOfScored(options);
  EXPECT_EQ(pinned.code, Code::kInvalidArgument);
  EXPECT_EQ(pinned.message,
            "plan: group 0: layer 2: eligible experts: expected at least 3 (3 pinned), found 2");
  EXPECT_EQ(pinned.hint, "raise --eligible, use fewer groups, or pin fewer");
  options.eligible = 1;
  const Error few = ErrorOfScored(options);
  EXPECT_EQ(few.message,
            "plan: group 0: layer 0: eligible experts: expected at least 2 (per token), found 1");
  EXPECT_EQ(few.hint, "raise --eligible, or use fewer groups");
}

TEST(PlansByScores, TheOverlayTakesRoomInAdditionToThePinnedExperts) {
  const fixtures::TempDir directory;
  const std::string path = directory / "overlay.json";
  ASSERT_TRUE(WriteTextFile(path, R"({"version": "v1", "layers": {"2": "7"}})"));
  ExpertScores scores = Planted{}.Make();
  scores.super_experts[2] = {1, 2, 3};
  PlanOptions options = ScoredOptions("session", scores);
  options.overlay_file = path;
  options.eligible = 3;
  EXPECT_EQ(ErrorOfScored(options).message,
            "plan: group 0: layer 2: eligible experts: expected at least 4 (3 pinned and 1 in the "
            "overlay), found 3");
}

TEST(PlansByScores, PinnedExpertsAloneMayServeTheTokens) {
  const MoeModel model = PlantedModel({});
  for (const char* partition : {"ranked", "coactivation", "session", "same"}) {
    ExpertScores scores = WithPairsOf(Planted{}.Make());
    for (uint32_t id = 0; id < 24; ++id) scores.super_experts[2].push_back(id);
    scores.super_experts[4] = {1, 2};
    PlanOptions options = ScoredOptions(partition, scores);
    options.eligible = 24;
    const auto all = MakePlan(model, options);
    ASSERT_TRUE(all) << partition << ": " << all.error().message;
    EXPECT_TRUE(CheckPlan("plan", *all));
    scores.super_experts.erase(2);
    options = ScoredOptions(partition, scores);
    options.eligible = 2;
    const auto two = MakePlan(model, options);
    ASSERT_TRUE(two) << partition << ": " << two.error().message;
    EXPECT_TRUE(CheckPlan("plan", *two));
    EXPECT_EQ(FormatIds(Eligible(*two, 1, 4)), "1-2");
  }
}

TEST(PlansByScores, ASetLargerThanTheLayerIsRefused) {
  PlanOptions options = ScoredOptions("same", Planted{}.Make());
  options.eligible = 25;
  EXPECT_EQ(ErrorOfScored(options).message,
            "plan: layer 0: eligible experts: expected at most 24, all that the layer has, found "
            "25");
}

TEST(PlansByScores, RequireScores) {
  PlanOptions options;
  options.groups = 2;
  options.partition = "session";
  const Error error = ErrorOfScored(options);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.message, "--partition session needs --statistics FILE");
}

TEST(PlansByScores, MoreGroupsThanExpertsAreRefused) {
  PlanOptions options = ScoredOptions("same", Planted{}.Make());
  options.groups = 25;
  EXPECT_EQ(ErrorOfScored(options).message,
            "plan: groups: expected at most 24, the experts of the smallest layer, found 25");
}

TEST(PlansByScores, AnEditedPlanKeepsItsScheme) {
  const fixtures::TempDir directory;
  const MoeModel model = PlantedModel({});
  const Plan plan = MakePlan(model, ScoredOptions("session", Planted{}.Make())).value();
  const std::string path = directory / "plan.json";
  ASSERT_TRUE(WriteTextFile(path, PlanText(model, plan).value()));
  const Plan read = ReadPlanFile(path, model).value();
  EXPECT_EQ(read.scheme, "session");
  EXPECT_EQ(read.expectation, plan.expectation);
}

// All of them; a message lists them.
constexpr const char* kSpellings[] = {"contiguous",   "modulo",  "explicit:FILE", "ranked",
                                      "coactivation", "session", "same"};

TEST(Partitions, HaveUniqueNamesAndAppearInTheHelp) {
  std::set<std::string_view> names;
  for (const char* spelling : kSpellings) {
    const auto choice = ParsePartition(spelling);
    ASSERT_TRUE(choice) << choice.error().message;
    const Partition& partition = *choice->partition;
    EXPECT_TRUE(names.insert(partition.name).second) << partition.name;
    EXPECT_EQ(spelling, Cat(partition.name, partition.takes_file ? ":FILE" : ""));
    EXPECT_THAT(PartitionHelp(), HasSubstr(Cat(spelling, " (", partition.help, ")")));
    EXPECT_EQ(choice->file, partition.takes_file ? "FILE" : "");
  }
  EXPECT_TRUE(names.contains(DefaultPartition({}).name)) << "the default is one of them";
}

// Sessions without any score count as none.
std::shared_ptr<const ExpertScores> ScoresWithSessions(size_t sessions) {
  auto scores = std::make_shared<ExpertScores>();
  scores->layers = {{0, 2, 1}};
  for (size_t i = 0; i < sessions; ++i)
    scores->sessions.push_back({Cat("session ", i), "", 10, {1, 2}, {}});
  scores->sessions.push_back({"empty", "", 0, {0, 0}, {}});
  return scores;
}

TEST(Partitions, TheDefaultDependsOnTheStatistics) {
  PlanOptions options;
  options.groups = 3;
  options.held_out = 0;
  EXPECT_EQ(DefaultPartition(options).name, "contiguous");
  EXPECT_EQ(DefaultPartition(options).why, "");
  options.scores = ScoresWithSessions(3);
  EXPECT_EQ(DefaultPartition(options).name, "session");
  EXPECT_EQ(DefaultPartition(options).why, "because the statistics have 3 sessions to plan from");
  options.groups = 4;
  EXPECT_EQ(DefaultPartition(options).name, "same");
  EXPECT_EQ(DefaultPartition(options).why,
            "because the statistics have 3 sessions to plan from, fewer than \"session\" needs");
  options.groups = 1;
  options.scores = ScoresWithSessions(1);
  EXPECT_EQ(DefaultPartition(options).name, "same") << "all that is known is one sum";
  auto agnostic = std::make_shared<ExpertScores>(*options.scores);
  agnostic->layer_agnostic = true;
  options.scores = agnostic;
  EXPECT_EQ(DefaultPartition(options).name, "contiguous");
  EXPECT_THAT(DefaultPartition(options).why, HasSubstr("over all layers together"));
  EXPECT_EQ(PartitionOf(options), "contiguous");
  options.partition = "modulo";
  EXPECT_EQ(PartitionOf(options), "modulo");
}

TEST(Partitions, KeepColonsInAFileName) {
  EXPECT_EQ(ParsePartition("explicit:a:b.json")->file, "a:b.json");
}

TEST(Partitions, AreListedInTheErrorForAnUnknownName) {
  for (const char* text : {"", "random", "explicit", "explicit:", "modulo:a", "Modulo"}) {
    const auto choice = ParsePartition(text);
    ASSERT_FALSE(choice) << text;
    EXPECT_EQ(choice.error().code, Code::kInvalidArgument);
    EXPECT_EQ(choice.error().message,
              Cat("expected contiguous, modulo, explicit:FILE, ranked, session, coactivation or "
                  "same, found ",
                  Quoted(text)));
  }
}

// Those that need neither a file nor statistics.
TEST(Partitions, GiveEveryExpertOneOwner) {
  for (const char* spelling : kSpellings) {
    const Partition& partition = *ParsePartition(spelling)->partition;
    if (partition.takes_file || partition.by_scores) continue;
    Plan plan;
    plan.layers = {{0, 16}, {3, 10}};
    ASSERT_TRUE(partition.make({.groups = 3, .file = ""}, plan)) << partition.name;
    ASSERT_EQ(plan.groups.size(), 3u);
    for (const auto& [layer, experts] : plan.layers) {
      std::set<uint32_t> owned;
      for (const GroupPlan& group : plan.groups) {
        for (const uint32_t id : IdsOf(group.owned, layer)) {
          EXPECT_TRUE(owned.insert(id).second) << partition.name << ": expert " << id;
        }
      }
      EXPECT_EQ(owned.size(), experts) << partition.name;
      EXPECT_EQ(*owned.rbegin(), experts - 1) << partition.name;
    }
  }
}

TEST(Partitions, SayWhetherTheyNeedStatistics) {
  for (const char* name : {"ranked", "coactivation", "session", "same"})
    EXPECT_TRUE(DecidesFromScores(name)) << name;
  for (const char* name : {"contiguous", "modulo", "explicit", "by-language", ""})
    EXPECT_FALSE(DecidesFromScores(name)) << name;
}

TEST(Partitions, SayWhetherTheyReadPairs) {
  EXPECT_TRUE(ReadsPairs("coactivation"));
  for (const char* name : {"contiguous", "explicit:coactivation", "ranked", "session", "nothing"})
    EXPECT_FALSE(ReadsPairs(name)) << name;
}

TEST(Partitions, AreComparedWithTheDefault) {
  EXPECT_THAT(ComparedPartitions(),
              testing::ElementsAre("contiguous", "ranked", "session", "coactivation", "same"));
  EXPECT_EQ(ComparedPartitions().front(), DefaultPartition(PlanOptions()).name);
}

}  // namespace

}  // namespace moepack
