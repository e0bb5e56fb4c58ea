#include "libshard/model/moe_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using testing::ElementsAre;

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
