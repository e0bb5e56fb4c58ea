#include "libshard/plan/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using testing::HasSubstr;

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
