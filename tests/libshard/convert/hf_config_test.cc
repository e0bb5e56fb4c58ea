#include "libshard/model/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

HfConfig ParsedConfig(const std::string& text) {
  return HfConfig::Parse("config.json", text).value();
}

template <class T>
std::string HfConfigErrorOf(const Result<T>& result) {
  EXPECT_FALSE(result);
  if (result) return "";
  EXPECT_EQ(result.error().code, Code::kCorrupt);
  return result.error().message;
}

TEST(HfConfig, TakesTheFirstNameThatIsPresent) {
  const HfConfig config = ParsedConfig(R"({"n_embd": 2, "hidden_size": 1, "num_experts": null})");
  EXPECT_EQ(config.U32({"hidden_size", "n_embd"}).value(), 1u);
  EXPECT_EQ(config.U32({"dim", "n_embd"}).value(), 2u);
  EXPECT_FALSE(config.Has({"num_experts"})) << "null counts as absent";
}

TEST(HfConfig, TheTextConfigOverridesTheFieldsAroundIt) {
  const HfConfig config = ParsedConfig(
      R"({"a": 1, "b": 2, "thinker_config": {"b": 3, "text_config": {"c": 4, "a": null}}})");
  EXPECT_EQ(config.U32({"a"}).value(), 1u);
  EXPECT_EQ(config.U32({"b"}).value(), 3u);
  EXPECT_EQ(config.U32({"c"}).value(), 4u);
  EXPECT_EQ(config.Find({"c"})->path, "thinker_config.text_config.c");
  EXPECT_EQ(config.FindAtRoot({"b"})->path, "b");
}

TEST(HfConfig, TheInnermostConfigWinsUnderAnyOfItsNames) {
  const HfConfig config =
      ParsedConfig(R"({"first": 1, "text_config": {"second": 2, "ffn_config": {"third": 3}}})");
  EXPECT_EQ(config.U32({"first", "second"}).value(), 2u);
  EXPECT_EQ(config.Find({"first", "second", "third"})->path, "text_config.ffn_config.third");
  EXPECT_EQ(config.FindAtRoot({"third", "second", "first"})->path, "first");
  EXPECT_EQ(config.NestedText()->path, "text_config.");
  EXPECT_FALSE(ParsedConfig(R"({"ffn_config": {"a": 1}})").NestedText());
}

TEST(HfConfig, ReadsTheConfigsOfBlocksAsListsWithOneEntryPerLayer) {
  const HfConfig config = ParsedConfig(R"({"moe_latent_size": 8, "block_configs": [
      {"block_type": "moe", "num_experts_per_tok": 2, "n_routed_experts": 4, "moe_latent_size": 8},
      {"block_type": "mamba"},
      {"block_type": "moe", "num_experts_per_tok": 1, "n_routed_experts": 4,
       "moe_latent_size": 8}]})");
  EXPECT_THAT(config.FindU32s({"num_experts_per_tok"}).value(), ElementsAre(2, 0, 1));
  EXPECT_EQ(config.U32({"n_routed_experts"}).value(), 4u) << "all blocks that have it agree";
  EXPECT_EQ(config.Find({"moe_latent_size"})->path, "moe_latent_size");
  EXPECT_EQ(*config.Find({"block_type"})->value, Json({"moe", "mamba", "moe"}));
  EXPECT_EQ(config.Find({"block_type"})->path, "block_configs.block_type");
  EXPECT_FALSE(config.NestedText());
}

TEST(HfConfig, LeavesConfigsOfBlocksWithoutAKindAlone) {
  for (const char* text :
       {R"({"block_configs": [{"num_experts_per_tok": 2}]})", R"({"block_configs": []})"}) {
    EXPECT_FALSE(ParsedConfig(text).Has({"num_experts_per_tok", "block_type"})) << text;
  }
  EXPECT_THAT(HfConfigErrorOf(HfConfig::Parse("config.json", R"({"block_configs": 3})")),
              HasSubstr("block_configs: expected a list of objects"));
}

TEST(HfConfig, AbsentFieldsAreAnErrorOnlyWhereRequired) {
  const HfConfig config = ParsedConfig("{}");
  EXPECT_FALSE(config.FindU32({"x"}).value());
  EXPECT_FALSE(config.FindF32({"x"}).value());
  EXPECT_FALSE(config.FindBool({"x"}).value());
  EXPECT_FALSE(config.FindString({"x"}).value());
  EXPECT_TRUE(config.FindU32s({"x"}).value().empty());
  EXPECT_EQ(HfConfigErrorOf(config.U32({"x", "y"})),
            "config.json: x or y: expected a whole number, found nothing");
  EXPECT_EQ(HfConfigErrorOf(config.F32({"x"})), "config.json: x: expected a number, found nothing");
}

TEST(HfConfig, RefusesFieldsOfAnotherType) {
  const HfConfig config = ParsedConfig(
      R"({"text_config": {"n": -1}, "f": 1.5, "s": "7", "big": 4294967296, "list": [1, -2],
          "huge": 1e39, "infinite": Infinity})");
  EXPECT_EQ(HfConfigErrorOf(config.FindU32({"n"})),
            "config.json: text_config.n: expected a whole number from 0 to 4294967295, found -1");
  for (const char* key : {"f", "s", "big", "list"})
    EXPECT_NE(HfConfigErrorOf(config.FindU32({key})), "");
  for (const char* key : {"s", "huge", "infinite"}) {
    EXPECT_THAT(HfConfigErrorOf(config.FindF32({key})), HasSubstr("fits 32-bit floating point"))
        << key;
  }
  EXPECT_THAT(HfConfigErrorOf(config.FindBool({"f"})), HasSubstr("true or false, found 1.5"));
  EXPECT_THAT(HfConfigErrorOf(config.FindString({"f"})), HasSubstr("a string, found 1.5"));
  EXPECT_THAT(HfConfigErrorOf(config.FindU32s({"list"})), HasSubstr("whole numbers"));
  EXPECT_THAT(HfConfigErrorOf(HfConfig::Parse("config.json", "[]")),
              HasSubstr("expected a JSON object"));
}

TEST(HfConfig, ReadsNumbersAsTheyAreWritten) {
  const HfConfig config = ParsedConfig(R"({"theta": 1000000, "eps": 1e-06, "list": [3, 3, 2]})");
  EXPECT_EQ(config.F32({"theta"}).value(), 1e6f);
  EXPECT_EQ(config.F32({"eps"}).value(), 1e-6f);
  EXPECT_THAT(config.FindU32s({"list"}).value(), ElementsAre(3, 3, 2));
  EXPECT_THAT(config.FindU32s({"theta"}).value(), ElementsAre(1000000));
}

TEST(HfConfig, BothLayoutsOfRopeParametersReadTheSame) {
  const char* older = R"({"rope_theta": 5e5, "partial_rotary_factor": 0.5,
                          "rope_scaling": {"type": "yarn", "factor": 4}})";
  const char* newer = R"({"rope_parameters": {"rope_theta": 5e5, "partial_rotary_factor": 0.5,
                          "rope_type": "yarn", "factor": 4}})";
  for (const char* text : {older, newer}) {
    const HfConfig rope = ParsedConfig(text).Rope().value();
    EXPECT_EQ(*rope.FindString({"rope_type"}).value(), "yarn");
    EXPECT_EQ(rope.F32({"rope_theta"}).value(), 5e5f);
    EXPECT_EQ(rope.F32({"partial_rotary_factor"}).value(), 0.5f);
    EXPECT_EQ(rope.F32({"factor"}).value(), 4.0f);
  }
  EXPECT_FALSE(ParsedConfig(R"({"factor": 3})").Rope()->Has({"factor"})) << "not a rope parameter";
}

TEST(HfConfig, GivesAnInnerObjectAlone) {
  const HfConfig config =
      ParsedConfig(R"({"heads": 3, "width": 5, "inner": {"heads": 2}, "text": "a"})");
  const HfConfig inner = config.Within("inner").value();
  EXPECT_EQ(inner.U32({"heads"}).value(), 2u);
  EXPECT_EQ(inner.Find({"heads"})->path, "inner.heads");
  EXPECT_FALSE(inner.Has({"width"}));
  EXPECT_THAT(HfConfigErrorOf(config.Within("text")), HasSubstr("text: expected an object"));
  EXPECT_THAT(HfConfigErrorOf(config.Within("none")), HasSubstr("none"));
}

TEST(HfConfig, RefusesRopeParametersByKindOfLayer) {
  const auto rope = ParsedConfig(R"({"rope_parameters": {"full_attention": {}}})").Rope();
  ASSERT_FALSE(rope);
  EXPECT_EQ(rope.error().code, Code::kUnsupported);
  EXPECT_THAT(rope.error().message, HasSubstr("a set for each kind of layer"));
  EXPECT_THAT(HfConfigErrorOf(ParsedConfig(R"({"rope_scaling": 2})").Rope()),
              HasSubstr("expected an object"));
}

TEST(HfConfig, FallsBackToDefaultsWhereNoNameIsPresent) {
  const HfConfig config =
      ParsedConfig(R"({"n_heads": 3, "text_config": {"width": null}})")
          .WithDefaults(R"({"heads": 1, "width": 7, "rope_theta": 5, "rope_scaling": null})")
          .value();
  EXPECT_EQ(config.U32({"heads", "n_heads"}).value(), 3u)
      << "the value of the file comes before a default under another name";
  EXPECT_EQ(config.U32({"width"}).value(), 7u) << "null is absent";
  EXPECT_EQ(config.Rope()->F32({"rope_theta"}).value(), 5.0f);
  EXPECT_FALSE(config.FindAtRoot({"width"})) << "ids of tokens have no defaults";
  EXPECT_FALSE(ParsedConfig("{}").WithDefaults("").value().Has({"width"}));
}

TEST(HfConfig, ReadsListsOfNumbers) {
  const HfConfig config =
      ParsedConfig(R"({"list": [1, 2.5], "one": 3, "text": ["a"], "big": [1e300]})");
  EXPECT_THAT(config.FindF32s({"list"}).value(), testing::ElementsAre(1, 2.5f));
  EXPECT_THAT(config.FindF32s({"none"}).value(), testing::IsEmpty());
  for (const char* key : {"one", "text", "big"}) {
    EXPECT_THAT(HfConfigErrorOf(config.FindF32s({key})), HasSubstr("expected a list of numbers"))
        << key;
  }
}

}  // namespace
}  // namespace moepack
