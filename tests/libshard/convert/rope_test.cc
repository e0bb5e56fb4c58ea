#include "libshard/convert/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

HfConfig RopeConfig(const std::string& text) {
  return HfConfig::Parse("config.json", text).value();
}

struct Outcome {
  GgufMetadata metadata;
  std::vector<std::string> warnings;
  Status status = Ok();
};

Outcome Add(const std::string& config, const RopeSupport& support = {}) {
  Outcome out;
  ArchKeys keys("arch", out.metadata);
  out.status = AddRopeKeys(RopeConfig(config), support, keys, out.warnings);
  return out;
}

TEST(RopeKeys, WriteTheBaseAsF32) {
  EXPECT_EQ(*Add(R"({"rope_theta": 1000000})").metadata.Find("arch.rope.freq_base"),
            GgufValue::F32(1e6f));
  EXPECT_EQ(Add("{}").metadata.Find("arch.rope.freq_base"), nullptr);
  const RopeSupport support = {.default_theta = 1e6f, .llama3 = false};
  EXPECT_EQ(*Add("{}", support).metadata.Find("arch.rope.freq_base"), GgufValue::F32(1e6f));
  EXPECT_EQ(*Add(R"({"rope_theta": 7})", support).metadata.Find("arch.rope.freq_base"),
            GgufValue::F32(7));
}

TEST(RopeKeys, RefuseABaseThatRuntimesCannotUse) {
  const RopeSupport windowed = {.default_theta = {}, .window_base = true};
  for (const char* base : {"0", "1", "-2", "[10000, 0.5]"}) {
    const Outcome out = Add(Cat(R"({"rope_theta": )", base, "}"), windowed);
    ASSERT_FALSE(out.status) << base;
    EXPECT_EQ(out.status.error().code, Code::kCorrupt);
    EXPECT_THAT(out.status.error().message, HasSubstr("rope_theta: expected more than 1, found"));
  }
}

TEST(RopeKeys, WriteOnlyTheBaseWithoutScaling) {
  for (const char* scaling : {"null", "{}", R"({"rope_type": "default"})"}) {
    const Outcome out = Add(Cat(R"({"rope_theta": 2, "rope_scaling": )", scaling, "}"));
    ASSERT_TRUE(out.status) << out.status.error().message;
    EXPECT_EQ(out.metadata.entries().size(), 1u) << scaling;
  }
}

TEST(RopeKeys, WriteTypeAndFactorOfLinearScaling) {
  const Outcome out = Add(R"({"rope_scaling": {"type": "linear", "factor": 2}})");
  EXPECT_EQ(*out.metadata.Find("arch.rope.scaling.type"), GgufValue::String("linear"));
  EXPECT_EQ(*out.metadata.Find("arch.rope.scaling.factor"), GgufValue::F32(2));
}

TEST(RopeKeys, WriteTheOriginalLengthAndTheBetasOfYarn) {
  const Outcome out = Add(R"({"rope_scaling": {"rope_type": "yarn", "factor": 40,
    "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1}})");
  ASSERT_TRUE(out.status) << out.status.error().message;
  EXPECT_EQ(*out.metadata.Find("arch.rope.scaling.type"), GgufValue::String("yarn"));
  EXPECT_EQ(*out.metadata.Find("arch.rope.scaling.factor"), GgufValue::F32(40));
  EXPECT_EQ(*out.metadata.Find("arch.rope.scaling.original_context_length"), GgufValue::U32(4096));
  EXPECT_EQ(*out.metadata.Find("arch.rope.scaling.yarn_beta_fast"), GgufValue::F32(32));
  EXPECT_EQ(*out.metadata.Find("arch.rope.scaling.yarn_beta_slow"), GgufValue::F32(1));
  EXPECT_EQ(out.metadata.entries().size(), 5u);
}

TEST(RopeKeys, NameAMissingFieldOfAScaling) {
  EXPECT_THAT(Add(R"({"rope_scaling": {"type": "linear"}})").status.error().message,
              HasSubstr("factor: expected a number, found nothing"));
  EXPECT_THAT(Add(R"({"rope_scaling": {"type": "yarn", "factor": 2}})").status.error().message,
              HasSubstr("original_max_position_embeddings: expected a whole number"));
}

TEST(RopeKeys, RefuseAScalingThatTheRuntimeWouldIgnoreAtAnyLength) {
  for (const char* type : {"llama3", "longrope", "su"}) {
    const Outcome out = Add(Cat(R"({"rope_scaling": {"type": ")", type, "\"}}"));
    ASSERT_FALSE(out.status) << type;
    EXPECT_EQ(out.status.error().code, Code::kUnsupported);
    EXPECT_THAT(out.status.error().message, HasSubstr(Quoted(type)));
  }
  EXPECT_TRUE(
      Add(R"({"rope_scaling": {"type": "llama3"}})", {.default_theta = {}, .llama3 = true}).status);
}

TEST(RopeKeys, WarnOfAScalingThatOnlyMattersBeyondTheTrainedLength) {
  const Outcome out = Add(R"({"rope_scaling": {"type": "dynamic", "factor": 2}})");
  ASSERT_TRUE(out.status);
  EXPECT_THAT(out.metadata.entries(), IsEmpty());
  EXPECT_THAT(out.warnings, ElementsAre(HasSubstr("\"dynamic\" has no form in GGUF")));
}

TEST(RopeKeys, PadSectionsToFour) {
  const Outcome out = Add(R"({"rope_parameters": {"mrope_section": [3, 3, 2]}})");
  EXPECT_EQ(*out.metadata.Find("arch.rope.dimension_sections"),
            GgufValue::I32s(std::vector<int32_t>{3, 3, 2, 0}));
  EXPECT_THAT(
      Add(R"({"rope_parameters": {"mrope_section": [1, 1, 1, 1, 1]}})").status.error().message,
      HasSubstr("at most 4 sections"));
}

TEST(RopeFactors, MatchTheLlama4Listing) {
  const HfConfig config = RopeConfig(R"({"rope_theta": 500000.0, "rope_scaling": {"factor": 16.0,
    "high_freq_factor": 1.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
    "rope_type": "llama3"}})");
  const auto factors = RopeFactors(config, 64);
  ASSERT_TRUE(factors) << factors.error().message;
  EXPECT_EQ(Sha256Hex(std::as_bytes(std::span(*factors))),
            "25981450642ea2d0b998abf31a5161de2d7c5777040bb3bfe2870e40a86b1282");
}

TEST(RopeFactors, BlendBetweenShortAndLongWavelengths) {
  const HfConfig config =
      RopeConfig(R"({"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3"}})");
  const std::vector<float> factors = RopeFactors(config, 128).value();
  ASSERT_EQ(factors.size(), 64u);
  EXPECT_EQ(factors.front(), 1.0f);
  EXPECT_EQ(factors.back(), 8.0f);
  EXPECT_TRUE(std::is_sorted(factors.begin(), factors.end()));
  // Pair 32: wave 2 pi sqrt(theta) = 4443, s = (8192 / 4443 - 1) / 3, 1 / ((1 - s) / 8 + s).
  EXPECT_NEAR(factors[32], 2.6945f, 1e-4);
  EXPECT_THAT(RopeFactors(RopeConfig("{}"), 128).value(), IsEmpty());
}

TEST(RopeFactors, RefuseNumbersThatMakeNoSense) {
  const HfConfig odd = RopeConfig(R"({"rope_scaling": {"rope_type": "llama3"}})");
  EXPECT_THAT(RopeFactors(odd, 7).error().message, HasSubstr("an even number up to"));
  const HfConfig zero = RopeConfig(R"({"rope_scaling": {"rope_type": "llama3", "factor": 0}})");
  EXPECT_THAT(RopeFactors(zero, 8).error().message, HasSubstr("factor: expected a number over 0"));
}

TEST(RopeTensors, AreTheFactorsOfScalingsThatTheRuntimeReadsAsTensors) {
  const HfConfig longrope = RopeConfig(
      R"({"rope_scaling": {"type": "su", "long_factor": [3, 4], "short_factor": [1, 2]}})");
  RopeSupport support;
  support.longrope = true;
  const auto tensors = RopeTensors(longrope, support, 4);
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].name, "rope_factors_long.weight");
  EXPECT_THAT((*tensors)[0].values, ElementsAre(3, 4));
  EXPECT_EQ((*tensors)[1].name, "rope_factors_short.weight");
  EXPECT_THAT((*tensors)[1].values, ElementsAre(1, 2));
  EXPECT_THAT(RopeTensors(longrope, {}, 4).value(), IsEmpty());
  EXPECT_THAT(RopeTensors(RopeConfig("{}"), support, 4).value(), IsEmpty());
  EXPECT_THAT(RopeTensors(longrope, support, 8).error().message,
              HasSubstr("long_factor: expected 4 numbers (half a head), found 2"));
}

TEST(RopeTensors, WriteNoScalingType) {
  RopeSupport support;
  support.longrope = true;
  const Outcome out = Add(R"({"rope_scaling": {"rope_type": "longrope"}})", support);
  EXPECT_TRUE(out.status);
  EXPECT_EQ(out.metadata.Find("arch.rope.scaling.type"), nullptr);
}

}  // namespace
}  // namespace moepack
