#include "libshard/model/config_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"

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

LayerKinds ReadKindsOf(const std::string& text, size_t layers = 4, size_t mtp = 0) {
  ConfigFaults faults;
  const auto kinds = ReadLayerKinds(*HfConfig::Parse("config.json", text), {layers, mtp}, faults);
  EXPECT_TRUE(kinds) << kinds.error().message;
  EXPECT_THAT(faults, IsEmpty()) << text;
  return kinds ? *kinds : LayerKinds();
}

std::vector<LayerKind> KindsOf(const std::string& text, size_t layers = 4, size_t mtp = 0) {
  std::vector<LayerKind> kinds;
  for (const NamedKind& layer : ReadKindsOf(text, layers, mtp).layers) kinds.push_back(layer.kind);
  return kinds;
}

constexpr LayerKind kFull = LayerKind::kFull, kWindow = LayerKind::kWindow,
                    kLinear = LayerKind::kLinear, kMamba = LayerKind::kMamba,
                    kExperts = LayerKind::kExperts, kOther = LayerKind::kOther;

TEST(LayerKind, IsNamedByWordsLettersOrNumbers) {
  EXPECT_THAT(KindsOf(R"({"layer_types": ["full_attention", "sliding_attention",
                          "linear_attention", "conv"]})"),
              ElementsAre(kFull, kWindow, kLinear, LayerKind::kConvolution));
  EXPECT_THAT(KindsOf(R"({"layer_types": ["attention", "mamba", "chunked_attention", "else"]})"),
              ElementsAre(kFull, kMamba, LayerKind::kChunked, kOther));
  EXPECT_THAT(KindsOf(R"({"hybrid_override_pattern": "ME*-"})"),
              ElementsAre(kMamba, kExperts, kFull, LayerKind::kDense));
  EXPECT_THAT(KindsOf(R"({"layers_block_type": ["mamba", "moe", "attention", "mlp"]})"),
              ElementsAre(kMamba, kExperts, kFull, LayerKind::kDense));
}

TEST(LayerKind, TheSameEntryMeansAnotherKindInAnotherList) {
  EXPECT_THAT(KindsOf(R"({"hybrid_layer_pattern": [0, 1, 1, 2]})"),
              ElementsAre(kFull, kWindow, kWindow, kOther));
  EXPECT_THAT(KindsOf(R"({"attn_type_list": [0, 1, 1, 0]})"),
              ElementsAre(kOther, kFull, kFull, kOther));
  EXPECT_THAT(KindsOf(R"({"layers_block_type": ["linear_attention"]})", 1), ElementsAre(kMamba));
}

TEST(LayerKind, ListsThatDisagreeNameNoKind) {
  const LayerKinds kinds = ReadKindsOf(
      R"({"layer_types": ["full_attention", "full_attention"], "hybrid_layer_pattern": [0, 1]})",
      2);
  EXPECT_EQ(kinds.field, "layer_types");
  EXPECT_EQ(kinds.layers[0].kind, kFull);
  EXPECT_EQ(kinds.layers[1].kind, kOther);
  EXPECT_EQ(kinds.layers[1].words, "full_attention 1");
}

TEST(LayerKind, AListOfBlocksDecidesAlone) {
  const LayerKinds kinds = ReadKindsOf(
      R"({"layer_types": ["linear_attention", "moe"], "hybrid_override_pattern": "ME"})", 2);
  EXPECT_EQ(kinds.field, "hybrid_override_pattern");
  EXPECT_EQ(kinds.layers[0].kind, kMamba);
  EXPECT_EQ(kinds.layers[0].words, "M");
  EXPECT_EQ(kinds.layers[1].kind, kExperts);
}

TEST(LayerKind, AnEmptyWordCountsBesideAnotherList) {
  const LayerKinds kinds = ReadKindsOf(R"({"layer_types": [""], "hybrid_layer_pattern": [0]})", 1);
  EXPECT_EQ(kinds.layers[0].kind, kOther);
}

TEST(LayerKind, FollowsTheIntervalWhereNoListNamesIt) {
  const LayerKinds kinds = ReadKindsOf(R"({"text_config": {"full_attention_interval": 2}})");
  EXPECT_EQ(kinds.field, "text_config.full_attention_interval");
  EXPECT_EQ(kinds.layers[0].words, "linear_attention");
  EXPECT_THAT(KindsOf(R"({"full_attention_interval": 2})"),
              ElementsAre(kLinear, kFull, kLinear, kFull));
  EXPECT_THAT(KindsOf(R"({"full_attention_interval": 2,
                          "layer_types": ["full_attention", "linear_attention"]})",
                      2),
              ElementsAre(kFull, kLinear));
}

TEST(LayerKind, TheLastLayerOfAGroupHasFullAttentionAndSoHaveThoseAfterTheLastWholeGroup) {
  EXPECT_THAT(KindsOf(R"({"layer_group_size": 3})"), ElementsAre(kLinear, kLinear, kFull, kFull));
  EXPECT_THAT(KindsOf(R"({"layer_group_size": 2})"), ElementsAre(kLinear, kFull, kLinear, kFull));
  EXPECT_EQ(ReadKindsOf(R"({"layer_group_size": 2})").layers[0].words, "linear_attention");
}

TEST(LayerKind, TwoListsOfNumbersFromOneNameEachLayerOnce) {
  EXPECT_THAT(KindsOf(R"({"linear_attn_config": {"full_attn_layers": [2, 3],
                                                 "kda_layers": [1, 4]}})"),
              ElementsAre(kLinear, kFull, kFull, kLinear));
  ConfigFaults faults;
  const char* const text = R"({"linear_attn_config": {"full_attn_layers": [2, 0],
                                                      "kda_layers": [1, 2, 5]}})";
  ASSERT_TRUE(ReadLayerKinds(*HfConfig::Parse("config.json", text), {4, 0}, faults));
  const std::string expected = "numbers from 1 to 4, each in one list";
  EXPECT_THAT(faults, ElementsAre(ConfigFault{"linear_attn_config.full_attn_layers", expected, "0"},
                                  ConfigFault{"linear_attn_config.kda_layers", expected, "2 twice"},
                                  ConfigFault{"linear_attn_config.kda_layers", expected, "5"}));
}

TEST(LayerKind, OneLayerOfAPeriodHasAttention) {
  EXPECT_THAT(KindsOf(R"({"attn_layer_period": 3, "attn_layer_offset": 1})"),
              ElementsAre(kMamba, kFull, kMamba, kMamba));
  EXPECT_EQ(ReadKindsOf(R"({"attn_layer_period": 3})").layers[0].words, "");
}

TEST(LayerKind, ListsMayNameBlocksForMultiTokenPrediction) {
  EXPECT_THAT(KindsOf(R"({"hybrid_layer_pattern": [0, 1, 1]})", 2, 1),
              ElementsAre(kFull, kWindow, kWindow));
}

TEST(LayerKind, IsUnnamedWhereTheConfigDoesNotSay) {
  const LayerKinds kinds = ReadKindsOf("{}", 1);
  EXPECT_EQ(kinds.field, "");
  EXPECT_EQ(kinds.layers[0].kind, LayerKind::kUnnamed);
}

TEST(LayerKind, FieldsOfAnotherTypeAreAnError) {
  ConfigFaults faults;
  const auto kinds = ReadLayerKinds(
      *HfConfig::Parse("config.json", R"({"full_attention_interval": "4"})"), {4, 0}, faults);
  ASSERT_FALSE(kinds);
  EXPECT_EQ(kinds.error().code, Code::kCorrupt);
}

TEST(LayerKind, HasTheNameThatLayerTypesGivesIt) {
  EXPECT_EQ(LayerKindName(kFull), "full_attention");
  EXPECT_EQ(LayerKindName(kExperts), "moe");
  EXPECT_EQ(LayerKindName(kOther), "another kind");
  EXPECT_EQ(KindOfBlock("M"), kMamba);
  EXPECT_EQ(KindOfBlock("X"), kOther);
}

struct MoeReading {
  MoeLayers layers;
  ConfigFaults faults;
};

MoeReading ReadMoe(const std::string& text) {
  MoeReading out;
  const auto read = ReadMoeLayers(*HfConfig::Parse("config.json", text), {4, 1}, out.faults);
  EXPECT_TRUE(read) << read.error().message;
  if (read) out.layers = *read;
  return out;
}

// "moe_layer_freq dmmd": the field that says it, and which layers have experts.
std::string MoeText(const std::string& text) {
  const MoeLayers layers = ReadMoe(text).layers;
  std::string letters;
  for (const bool moe : layers.moe) letters += moe ? 'm' : 'd';
  return Cat(layers.key, " ", letters);
}

// tests/libshard/check/check_promise_test.cc has every field.
TEST(MoeLayers, NamesTheFieldThatDecides) {
  EXPECT_EQ(MoeText("{}"), " ");
  EXPECT_EQ(MoeText(R"({"text_config": {"first_k_dense_replace": 1, "moe_layer_freq": 2}})"),
            "first_k_dense_replace ddmd");
  EXPECT_EQ(MoeText(R"({"first_k_dense_replace": 1, "moe_layer_freq": [0, 1, 1, 0, 1]})"),
            "moe_layer_freq dmmd");
  EXPECT_EQ(MoeText(R"({"interleave_moe_layer_step": 2, "moe_layers": [0, 4]})"),
            "moe_layers mddd");
}

TEST(MoeLayers, ARangeMayEndBeforeTheLastLayer) {
  EXPECT_EQ(MoeText(R"({"moe_layer_start_index": 1, "moe_layer_end_index": 2})"),
            "moe_layer_end_index dmmd");
  for (const char* end : {"-1", "3", "9"}) {
    EXPECT_EQ(MoeText(Cat(R"({"moe_layer_start_index": 1, "moe_layer_end_index": )", end, "}")),
              "moe_layer_start_index dmmm");
  }
}

TEST(MoeLayers, LettersAndWordsOfBlocksMeanTheSame) {
  EXPECT_EQ(MoeText(R"({"hybrid_override_pattern": "ME*E"})"), "hybrid_override_pattern dmdm");
  EXPECT_EQ(MoeText(R"({"layers_block_type": ["mamba", "moe", "attention", "mlp"]})"),
            "layers_block_type dmdd");
  EXPECT_TRUE(ReadMoe(R"({"hybrid_override_pattern": "ME*E"})").layers.mixers);
  EXPECT_FALSE(ReadMoe(R"({"moe_layer_freq": [0, 1, 1, 0]})").layers.mixers);
}

TEST(MoeLayers, ContradictionsAreFaults) {
  EXPECT_THAT(ReadMoe(R"({"first_k_dense_replace": 5})").faults,
              ElementsAre(ConfigFault{"first_k_dense_replace", "at most 4", "5"}));
  EXPECT_THAT(ReadMoe(R"({"moe_layers_enum": "1,x"})").faults,
              ElementsAre(ConfigFault{"moe_layers_enum", "numbers of layers below 4",
                                      "18446744073709551615"}));
  EXPECT_THAT(ReadMoe(R"({"moe_layer_start_index": 0, "moe_layer_interval": 0})").faults,
              ElementsAre(ConfigFault{"moe_layer_interval", "at least 1", "0"}));
}

TEST(MoeLayers, FieldsOfAnotherTypeAreAnError) {
  for (const char* text : {R"({"moe_layer_start_index": 0, "moe_layer_end_index": -2})",
                           R"({"moe_layers": ["1"]})", R"({"decoder_sparse_step": 1.5})"}) {
    ConfigFaults faults;
    const auto read = ReadMoeLayers(*HfConfig::Parse("config.json", text), {4, 0}, faults);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, Code::kCorrupt);
  }
}

}  // namespace

}  // namespace moepack
