#include "libshard/base/text/expert_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace moepack {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ParseError(const std::string& text, uint32_t limit = 127) {
  const auto ids = ParseIds("a.json: layer 7", text, limit);
  if (ids) return "accepted";
  EXPECT_EQ(ids.error().code, Code::kCorrupt);
  EXPECT_THAT(ids.error().message, HasSubstr("a.json: layer 7: expected"));
  return ids.error().message;
}

std::string JsonError(const Json& value, const LayerCounts& layers) {
  const auto experts = LayerExpertsFromJson("a.json", value, layers);
  if (experts) return "accepted";
  EXPECT_EQ(experts.error().code, Code::kCorrupt);
  return experts.error().message;
}

TEST(FormatIds, SpellsRunsAsRanges) {
  EXPECT_EQ(FormatIds({}), "");
  EXPECT_EQ(FormatIds({0}), "0");
  EXPECT_EQ(FormatIds({1, 2}), "1-2");
  EXPECT_EQ(FormatIds({0, 1, 2, 3, 97, 100, 101}), "0-3,97,100-101");
  EXPECT_EQ(FormatIds({1, 3, 5}), "1,3,5");
}

TEST(FormatChoice, SaysOneOfOnlyIfThereAreMore) {
  EXPECT_EQ(FormatChoice({7}), "7");
  EXPECT_EQ(FormatChoice({0, 1, 2, 5}), "one of 0-2,5");
}

TEST(ParseIds, ReadsIdsAndRangesInAnyOrder) {
  EXPECT_THAT(*ParseIds("x", "97,0-3", 97), ElementsAre(0, 1, 2, 3, 97));
  EXPECT_THAT(*ParseIds("x", " 5 , 2-3 ", 5), ElementsAre(2, 3, 5));
  EXPECT_THAT(*ParseIds("x", "", 5), IsEmpty());
  EXPECT_THAT(*ParseIds("x", "4-4", 5), ElementsAre(4));
}

TEST(ParseIds, ReadsBackWhatFormatIdsWrites) {
  for (uint32_t step = 1; step < 9; ++step) {
    ExpertIds ids;
    for (uint32_t id = step; id < 200; id += 1 + (id * step) % 3) ids.push_back(id);
    EXPECT_EQ(*ParseIds("x", FormatIds(ids), 199), ids);
  }
}

TEST(ParseIds, RefusesIdsBeyondTheLimit) {
  EXPECT_THAT(ParseError("0-128"), HasSubstr("numbers from 0 to 127, found \"128\""));
  EXPECT_THAT(ParseError("128"), HasSubstr("numbers from 0 to 127"));
  EXPECT_THAT(ParseError("4294967296"), HasSubstr("numbers from 0 to 127"));
  EXPECT_EQ(ParseError("127"), "accepted");
}

TEST(ParseIds, RefusesDuplicatesAlsoInsideRanges) {
  EXPECT_THAT(ParseError("3,3"), HasSubstr("each number once, found 3 twice"));
  EXPECT_THAT(ParseError("0-5,4"), HasSubstr("found 4 twice"));
  EXPECT_THAT(ParseError("5-9,0-5"), HasSubstr("found 5 twice"));
}

TEST(ParseIds, RefusesReversedRanges) {
  EXPECT_THAT(ParseError("5-3"), HasSubstr("a range that ascends, found \"5-3\""));
}

TEST(ParseIds, RefusesEverythingButIdsAndRanges) {
  for (const char* text : {"a", "1,", ",1", "1,,2", "-", "1-", "-1", "1-2-3", "1 - 2", "1;2", "0x1",
                           "18446744073709551616", "1.5", "+1"}) {
    EXPECT_THAT(ParseError(text), HasSubstr("numbers and ranges like 0-42,97")) << text;
  }
}

TEST(ParseIds, DoesNotExpandRepeatedRanges) {
  std::string text = "0-1048575";
  for (int i = 0; i < 10'000; ++i) text += ",0-1048575";
  EXPECT_THAT(ParseError(text, 1'048'575), HasSubstr("found 0 twice"));
}

TEST(Sets, UnionDifferenceAndContainsKeepOrder) {
  EXPECT_THAT(Union({1, 3, 5}, {0, 3, 9}), ElementsAre(0, 1, 3, 5, 9));
  EXPECT_THAT(Difference({1, 3, 5}, {0, 3, 9}), ElementsAre(1, 5));
  EXPECT_TRUE(Contains({1, 3, 5}, 3));
  EXPECT_FALSE(Contains({1, 3, 5}, 4));
}

TEST(Sets, AbsentAndEmptyLayersAreEquivalent) {
  const LayerExperts experts = {{0, {1, 2}}, {4, {}}};
  EXPECT_THAT(IdsOf(experts, 0), ElementsAre(1, 2));
  EXPECT_THAT(IdsOf(experts, 4), IsEmpty());
  EXPECT_THAT(IdsOf(experts, 9), IsEmpty());
  EXPECT_EQ(CountIds(experts), 2u);
}

TEST(LayerExpertsJson, UsesTheStarWhenAllLayersAgree) {
  const LayerCounts layers = {{1, 8}, {2, 8}};
  EXPECT_EQ(LayerExpertsToJson({{1, {0, 1, 5}}, {2, {0, 1, 5}}}, layers).dump(),
            R"({"*":"0-1,5"})");
  EXPECT_EQ(LayerExpertsToJson({{1, {0, 1, 5}}, {2, {}}}, layers).dump(), R"({"1":"0-1,5"})");
  EXPECT_EQ(LayerExpertsToJson({{1, {0}}, {2, {1}}}, layers).dump(), R"({"1":"0","2":"1"})");
  EXPECT_EQ(LayerExpertsToJson({{1, {}}}, layers).dump(), "{}");
}

TEST(LayerExpertsJson, LetsALayerOverrideTheStar) {
  const LayerCounts layers = {{1, 8}, {2, 8}, {3, 8}};
  const auto experts =
      LayerExpertsFromJson("x", Json::parse(R"({"2":"7","*":"0-1","3":""})"), layers);
  ASSERT_TRUE(experts);
  EXPECT_EQ(*experts, (LayerExperts{{1, {0, 1}}, {2, {7}}}));
}

TEST(LayerExpertsJson, ReadsBackWhatItWrites) {
  const LayerCounts layers = {{0, 4}, {5, 8}};
  for (const LayerExperts& experts :
       {LayerExperts{}, LayerExperts{{0, {0, 3}}, {5, {0, 3}}}, LayerExperts{{5, {7}}}}) {
    EXPECT_EQ(*LayerExpertsFromJson("x", LayerExpertsToJson(experts, layers), layers), experts);
  }
}

TEST(LayerExpertsJson, RefusesLayersWithoutExperts) {
  const LayerCounts layers = {{1, 8}};
  EXPECT_THAT(JsonError(Json::parse(R"({"0":"1"})"), layers),
              HasSubstr("a.json: layer 0: expected a layer with routed experts, found none"));
  EXPECT_THAT(JsonError(Json::parse(R"({"99999999999":"1"})"), layers), HasSubstr("found none"));
}

TEST(LayerExpertsJson, RefusesKeysThatAreNotLayerNumbers) {
  const LayerCounts layers = {{1, 8}};
  for (const char* text : {R"({"01":"1"})", R"({"one":"1"})", R"({"":"1"})", R"({"-1":"1"})"}) {
    EXPECT_THAT(JsonError(Json::parse(text), layers), HasSubstr("expected a layer number")) << text;
  }
}

TEST(LayerExpertsJson, RefusesIdsOutOfRangeOfTheirOwnLayer) {
  const LayerCounts layers = {{1, 8}, {2, 4}, {3, 0}};
  EXPECT_THAT(JsonError(Json::parse(R"({"1":"7","2":"4"})"), layers),
              HasSubstr("a.json: layer 2: expected numbers from 0 to 3, found \"4\""));
  EXPECT_THAT(JsonError(Json::parse(R"({"*":"0-5"})"), layers), HasSubstr("layer 2"));
  EXPECT_THAT(JsonError(Json::parse(R"({"3":"0"})"), layers), HasSubstr("expected none"));
}

TEST(LayerExpertsJson, RefusesValuesOfTheWrongType) {
  const LayerCounts layers = {{1, 8}};
  EXPECT_THAT(JsonError(Json::parse("[1]"), layers), HasSubstr("expected an object"));
  EXPECT_THAT(JsonError(Json::parse(R"({"1":[0,1]})"), layers), HasSubstr("expected text"));
  EXPECT_THAT(JsonError(Json::parse(R"({"*":3})"), layers), HasSubstr("expected text"));
}

}  // namespace
}  // namespace moepack
