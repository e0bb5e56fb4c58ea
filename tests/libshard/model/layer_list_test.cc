#include "libshard/model/layer_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ConfigKeys kList = {"list", "other_list"};
constexpr BlockCounts kThreeLayers = {.layers = 3, .mtp = 1};

struct ListReading {
  std::optional<LayerList> list;
  ConfigFaults faults;
};

ListReading ReadList(const std::string& text, bool letters = false) {
  ListReading out;
  out.list = ReadLayerList(*HfConfig::Parse("config.json", text), kList, kThreeLayers, out.faults,
                           letters);
  return out;
}

TEST(LayerList, ReadsWordsAndNumbersUnderAnyName) {
  const ListReading words = ReadList(R"({"text_config": {"other_list": ["a", 1, 0.5]}})");
  ASSERT_TRUE(words.list);
  EXPECT_EQ(words.list->field, "text_config.other_list");
  EXPECT_THAT(words.list->entries, ElementsAre("a", "1", "0.5"));
  EXPECT_THAT(words.faults, IsEmpty());
}

TEST(LayerList, AnnouncedBlocksMayHaveEntriesOfTheirOwn) {
  EXPECT_EQ(ReadList(R"({"list": [1, 2, 3, 4]})").list->entries.size(), 4u);
  EXPECT_FALSE(ReadList(R"({"list": [1, 2, 3, 4, 5]})").list);
}

TEST(LayerList, AStringIsAListOfLettersOnlyWhereThatIsMeant) {
  EXPECT_THAT(ReadList(R"({"list": "ME*"})", /*letters=*/true).list->entries,
              ElementsAre("M", "E", "*"));
  const ListReading refused = ReadList(R"({"list": "ME*"})");
  EXPECT_FALSE(refused.list);
  EXPECT_THAT(refused.faults,
              ElementsAre(ConfigFault{"list", "a list with one entry per layer (3)", "\"ME*\""}));
}

TEST(LayerList, ANumberAndAnAbsentFieldAreNoListAndNoFault) {
  for (const char* text : {R"({"list": 2})", R"({"list": null})", "{}"}) {
    const ListReading read = ReadList(text);
    EXPECT_FALSE(read.list) << text;
    EXPECT_THAT(read.faults, IsEmpty()) << text;
  }
}

TEST(LayerList, EntriesAreWordsOrNumbers) {
  const ListReading read = ReadList(R"({"list": ["a", {"b": 1}, 2]})");
  EXPECT_FALSE(read.list);
  EXPECT_THAT(read.faults,
              ElementsAre(ConfigFault{"list[1]", "a word or a number", "an object of 1 key"}));
  EXPECT_FALSE(ReadList(R"({"list": [null, 1, 2]})").list);
}

TEST(LayerList, LongEntriesAreCutBetweenCharacters) {
  const std::string word = std::string(63, 'a') + "\xc3\xa9";
  EXPECT_EQ(ReadList("{\"list\": [\"" + word + "\", 1, 2]}").list->entries[0],
            std::string(63, 'a'));
}

TEST(LayerList, AWrongLengthIsAFaultThatIsAddedOnce) {
  ListReading read = ReadList(R"({"list": [1]})");
  EXPECT_FALSE(read.list);
  AddFault(read.faults, {"list", "one entry per layer (3)", "1"});
  EXPECT_THAT(read.faults, ElementsAre(ConfigFault{"list", "one entry per layer (3)", "1"}));
}

TEST(LayerList, TheFirstFaultBecomesAnError) {
  const HfConfig config = *HfConfig::Parse("config.json", "{}");
  EXPECT_TRUE(CheckFaults(config, {}));
  const Status status = CheckFaults(config, {{"a", "b", "c"}, {"d", "e", "f"}});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCorrupt);
  EXPECT_EQ(status.error().message, "config.json: a: expected b, found c");
}

TEST(LayerList, AStepOfZeroIsAFault) {
  ConfigFaults faults;
  const HfConfig config = *HfConfig::Parse("config.json", R"({"list": 0, "wrong": "2"})");
  EXPECT_EQ(*ReadLayerStep(config, kList, faults), std::nullopt);
  EXPECT_THAT(faults, ElementsAre(ConfigFault{"list", "at least 1", "0"}));
  EXPECT_EQ(*ReadLayerStep(config, {"absent"}, faults), std::nullopt);
  EXPECT_EQ(ReadLayerStep(config, {"wrong"}, faults).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace moepack
