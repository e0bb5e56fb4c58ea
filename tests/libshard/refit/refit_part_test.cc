#include "libshard/refit/refit_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/refit/refit_store.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RefitPart SomePart() { return {{0, 2}, {0, 1, 0, 3}, "avx2", "1.0"}; }

RefitOutcome SomeOutcome(uint32_t layer, uint32_t group, double error) {
  RefitOutcome outcome;
  outcome.layer = layer;
  outcome.group = group;
  outcome.error_after = error;
  return outcome;
}

TEST(RefitPart, IsReadAsItWasWritten) {
  const auto part = ParseRefitPart("part.json", RefitPartText(SomePart()));
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(*part, SomePart());
  EXPECT_EQ(RefitGroupImatrix(7), "imatrix-group-007.gguf");
}

TEST(RefitPart, RefusesGroupsAndTwinsThatCannotBe) {
  const auto refused = [](const char* from, const char* to) {
    std::string text = RefitPartText(SomePart());
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, std::string(from).size(), to);
    const auto part = ParseRefitPart("part.json", text);
    EXPECT_FALSE(part) << to;
    return part ? "" : part.error().message;
  };
  EXPECT_THAT(refused("\"0,2\"", "\"0,4\""), HasSubstr("groups: expected some of those"));
  EXPECT_THAT(refused("\"0,2\"", "\"\""), HasSubstr("groups"));
  EXPECT_THAT(refused("[0, 1, 0, 3]", "[0, 2, 0, 3]"), HasSubstr("twins: expected for each group"));
  EXPECT_THAT(refused("[0, 1, 0, 3]", "[0, 0, 1, 3]"), HasSubstr("twins: expected for each group"));
  EXPECT_THAT(refused("[0, 1, 0, 3]", "[]"), HasSubstr("twins: expected a group or more"));
  EXPECT_THAT(refused("\"1.0\"", "\"2.0\""), HasSubstr("format_version"));
}

TEST(RefitPart, NamesWhatItsRecordBelongsTo) {
  RefitRecord record;
  EXPECT_FALSE(IsPart(record));
  NamePart(SomePart(), record);
  EXPECT_TRUE(IsPart(record));
  ForgetPart(record);
  EXPECT_EQ(record, RefitRecord());
}

// Distributions that are made from parts have no other trace of the machine.
TEST(RefitPart, ItsRecordSaysHowItWasComputed) {
  const auto record_of = [](std::vector<uint32_t> groups, const std::string& instructions) {
    RefitPart part = SomePart();
    part.groups = std::move(groups);
    part.instructions = instructions;
    RefitRecord record;
    NamePart(part, record);
    return record;
  };
  RefitRecord first = record_of({0, 2}, "avx2"), second = record_of({1}, "avx2"),
              other = record_of({1}, "avx512");
  EXPECT_FALSE(first == second);
  for (RefitRecord* record : {&first, &second, &other}) ForgetGroups(*record);
  EXPECT_EQ(first, second);
  const Status same = CheckSameRefit("dir", first, other);
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().message, "dir: parameter instructions: expected avx2, found avx512");
  EXPECT_TRUE(ParameterOptions(record_of({0}, "avx2")).empty());
}

TEST(RefitPart, NamesWhatDiffersFromThePartThatIsThere) {
  const auto message = [](const std::optional<RefitPart>& wanted,
                          const std::optional<RefitPart>& found) {
    const Status same = CheckSamePart("dir", wanted, found);
    EXPECT_FALSE(same);
    return same ? "" : same.error().message;
  };
  RefitPart other = SomePart();
  EXPECT_TRUE(CheckSamePart("dir", SomePart(), other));
  other.groups = {1};
  EXPECT_THAT(message(SomePart(), other),
              "dir: refit: expected groups 0,2 of 4, found group 1 of 4");
  EXPECT_THAT(message(std::nullopt, other), "dir: refit: expected all groups, found group 1 of 4");
  EXPECT_THAT(message(other, std::nullopt), "dir: refit: expected group 1 of 4, found all groups");
  other = SomePart();
  other.instructions = "avx512";
  EXPECT_THAT(message(other, SomePart()), "dir: instructions: expected avx512, found avx2");
  other = SomePart();
  other.moepack = "1.1";
  EXPECT_THAT(message(other, SomePart()), "dir: moepack: expected 1.1, found 1.0");
  other.twins = {0, 1, 2, 3};
  other.moepack = "1.0";
  const Status fits = CheckPartsFit("dir", other, "first", SomePart());
  ASSERT_FALSE(fits);
  EXPECT_THAT(fits.error().message, HasSubstr("dir: twins of the groups: expected those"));
  EXPECT_THAT(fits.error().hint, HasSubstr("expected as in first"));
}

TEST(RefitPart, OutcomesOfPartsAreMergedInOrder) {
  RefitRecord even, odd, all;
  even.outcomes = {SomeOutcome(0, 0, 0.1), SomeOutcome(1, 0, 0.2)};
  odd.outcomes = {SomeOutcome(0, 1, 0.3), SomeOutcome(1, 1, 0.4)};
  for (const RefitRecord* part : {&odd, &even, &odd})
    ASSERT_TRUE(MergeOutcomes("part", *part, all));
  ASSERT_EQ(all.outcomes.size(), 4u);
  EXPECT_EQ(all.outcomes[1], odd.outcomes[0]);
  EXPECT_EQ(all.outcomes[2], even.outcomes[1]);
  odd.outcomes[1].error_after = 0.5;
  const Status merged = MergeOutcomes("part", odd, all);
  ASSERT_FALSE(merged);
  EXPECT_THAT(merged.error().message, HasSubstr("part: layer 1, group 1: expected what another"));
}

TEST(RefitPart, TasksGetWholeSetsOfTwinsAndAboutTheSameWork) {
  const std::vector<uint32_t> twins = {0, 1, 0, 3, 1};
  const std::vector<uint64_t> costs = {5, 4, 5, 3, 4};
  EXPECT_THAT(GroupsOfTask(twins, costs, 0, 2), ElementsAre(0, 2));
  EXPECT_THAT(GroupsOfTask(twins, costs, 1, 2), ElementsAre(1, 3, 4));
  EXPECT_THAT(GroupsOfTask(twins, costs, 0, 1), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(GroupsOfTask(twins, costs, 3, 4), IsEmpty());
  // Groups of the same size go to the tasks in turns.
  EXPECT_THAT(GroupsOfTask({0, 1, 2, 3}, {7, 7, 7, 7}, 1, 2), ElementsAre(1, 3));
}

}  // namespace
}  // namespace moepack
