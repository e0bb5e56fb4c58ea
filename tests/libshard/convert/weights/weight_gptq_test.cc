#include "libshard/convert/weights/weight_gptq.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/libshard/convert/weight_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A weight of 8 rows (outputs) and 16 columns in groups of 8.
constexpr uint32_t kRows = 8, kColumns = 16, kGroups = 2;
constexpr uint32_t kAwqOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};  // value in each place of a word

uint32_t CodeOf(uint32_t row, uint32_t column) { return (row * 7 + column * 3) % 16; }
uint32_t ZeroOf(uint32_t row, uint32_t group) { return (row + group) % 15 + 1; }
float ScaleOf(uint32_t row, uint32_t group) {
  return static_cast<float>(1 + row * kGroups + group);
}

std::vector<float> Expected() {
  std::vector<float> out;
  for (uint32_t row = 0; row < kRows; ++row) {
    for (uint32_t column = 0; column < kColumns; ++column) {
      const uint32_t group = column / 8;
      out.push_back(
          (static_cast<float>(CodeOf(row, column)) - static_cast<float>(ZeroOf(row, group))) *
          ScaleOf(row, group));
    }
  }
  return out;
}

void AddScales(WeightSample& sample) {
  std::vector<float> scales;
  for (uint32_t group = 0; group < kGroups; ++group) {
    for (uint32_t row = 0; row < kRows; ++row) scales.push_back(ScaleOf(row, group));
  }
  sample.Add("scales", "F32", {kGroups, kRows}, BytesOf(scales));
}

WeightSample Gptq(const std::string& format, uint32_t less) {
  WeightSample sample;
  sample.quantization = R"({"quant_method": "gptq", "bits": 4, "group_size": 8, "desc_act": false,
    "sym": false, "checkpoint_format": ")" +
                        format + "\"}";
  std::vector<uint32_t> words(kColumns / 8 * kRows), zeros(kGroups);
  for (uint32_t row = 0; row < kRows; ++row) {
    for (uint32_t column = 0; column < kColumns; ++column) {
      words[column / 8 * kRows + row] |= CodeOf(row, column) << (column % 8 * 4);
    }
    for (uint32_t group = 0; group < kGroups; ++group) {
      zeros[group] |= (ZeroOf(row, group) - less) << (row * 4);
    }
  }
  sample.Add("qweight", "I32", {kColumns / 8, kRows}, BytesOf(words));
  sample.Add("qzeros", "I32", {kGroups, 1}, BytesOf(zeros));
  AddScales(sample);
  return sample;
}

WeightSample Awq() {
  WeightSample sample;
  sample.quantization =
      R"({"quant_method": "awq", "bits": 4, "group_size": 8, "version": "gemm",
          "zero_point": true})";
  std::vector<uint32_t> words(kColumns), zeros(kGroups);
  for (uint32_t place = 0; place < 8; ++place) {
    const uint32_t row = kAwqOrder[place];
    for (uint32_t column = 0; column < kColumns; ++column) {
      words[column] |= CodeOf(row, column) << (place * 4);
    }
    for (uint32_t group = 0; group < kGroups; ++group) {
      zeros[group] |= ZeroOf(row, group) << (place * 4);
    }
  }
  sample.Add("qweight", "I32", {kColumns, 1}, BytesOf(words));
  sample.Add("qzeros", "I32", {kGroups, 1}, BytesOf(zeros));
  AddScales(sample);
  return sample;
}

TEST(GptqWeight, TransposesAndAddsOneToTheZeros) {
  WeightSample sample = Gptq("gptq", 1);
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_THAT(weight->shape, ElementsAre(8, 16));
  EXPECT_EQ(weight->stored->name, "bf16");
  EXPECT_EQ(sample.Values(*weight), Expected());
}

TEST(GptqWeight, TheSecondFormatStoresZerosUnchanged) {
  WeightSample sample = Gptq("gptq_v2", 0);
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_EQ(sample.Values(*weight), Expected());
}

TEST(GptqWeight, FollowsGroupIndexes) {
  WeightSample sample = Gptq("gptq", 1);
  std::vector<int32_t> groups(kColumns, 1);
  groups[0] = 0;
  groups[2] = 2;
  sample.Add("g_idx", "I32", {kColumns}, BytesOf(groups));
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  const std::vector<float> values = sample.Values(*weight);
  EXPECT_EQ(values[0], Expected()[0]);
  EXPECT_EQ(values[1],
            (static_cast<float>(CodeOf(0, 1)) - static_cast<float>(ZeroOf(0, 1))) * ScaleOf(0, 1));
  EXPECT_TRUE(std::isnan(values[2])) << "group 2 of 2";
}

TEST(AwqWeight, UnpacksItsOwnOrder) {
  WeightSample sample = Awq();
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_THAT(weight->shape, ElementsAre(8, 16));
  EXPECT_EQ(sample.Values(*weight), Expected());
}

TEST(GptqWeight, RefusesPartsThatAreMissingOrDoNotFit) {
  for (const std::string part : {"scales", "qzeros"}) {
    WeightSample sample = Gptq("gptq", 1);
    sample.Remove(part);
    EXPECT_THAT(sample.ErrorText(),
                HasSubstr("\"m.qweight\": expected " + part + " beside it, found none"));
  }
  WeightSample sample = Gptq("gptq", 1);
  sample.Tensor("scales").shape = {kRows, kGroups};
  EXPECT_THAT(sample.ErrorText(), HasSubstr("\"m.scales\": shape: expected [2, 8], found [8, 2]"));
  sample = Gptq("gptq", 1);
  sample.Tensor("qzeros").shape = {1, 2};
  EXPECT_THAT(sample.ErrorText(), HasSubstr("\"m.qzeros\": shape: expected [2, 1]"));
  sample = Awq();
  sample.Tensor("qweight").shape = {kColumns};
  EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected two dimensions, found [16]"));
  sample = Awq();
  sample.Add("g_idx", "I32", {1}, BytesOf<int32_t>({0}));
  EXPECT_THAT(sample.ErrorText(), HasSubstr("\"m.g_idx\": shape: expected [16], found [1]"));
}

TEST(GptqWeight, RefusesWordsThatTheConfigDoesNotExplain) {
  WeightSample sample = Gptq("gptq", 1);
  sample.quantization = R"({"quant_method": "fp8"})";
  EXPECT_THAT(sample.ErrorText(),
              HasSubstr("quant_method: expected gptq, awq or auto-round, found \"fp8\""));
}

TEST(GptqWeight, RefusesImpossibleScalesWithTensorAndPlace) {
  for (WeightSample sample : {Gptq("gptq", 1), Awq()}) {
    std::vector<float> scales(kGroups * kRows, 1);
    scales[kRows + 3] = NAN;
    sample.Tensor("scales").dtype = "F32";
    sample.Tensor("scales").bytes = BytesOf(scales);
    auto weight = sample.Read();
    ASSERT_TRUE(weight) << weight.error().message;
    EXPECT_EQ(sample.RowError(*weight->reader, 2), "");
    EXPECT_THAT(sample.RowError(*weight->reader, 3),
                HasSubstr("\"m.scales\": scale at [1, 3]: expected a finite number"));
    scales[kRows + 3] = 0;
    sample.Tensor("scales").bytes = BytesOf(scales);
    weight = sample.Read();
    ASSERT_TRUE(weight);
    EXPECT_THAT(sample.RowError(*weight->reader, 3),
                HasSubstr("\"m.scales\": scale at [1, 3]: expected another number than zero"));
  }
}

TEST(GptqWeight, TheTensorsSayWhichBitsAModuleHas) {
  WeightSample sample = Gptq("gptq", 1);
  sample.quantization = R"({"quant_method": "gptq", "bits": 8, "group_size": 16, "dynamic":
    {"-:.*attn.*": {}, "+:.*up.*": {"bits": 4, "group_size": 8}, "+:.*down.*": {"bits": 4}}})";
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_EQ(sample.Values(*weight), Expected());
  sample.quantization = R"({"quant_method": "gptq", "bits": 8, "group_size": 16, "dynamic":
    {"+:.*up.*": {"bits": 8, "group_size": 4}}})";
  EXPECT_THAT(sample.ErrorText(), HasSubstr("\"m.scales\": shape: expected [1, 8], found [2, 8]"));
}

TEST(GptqWeight, TwoFormsThatFitMustMeanTheSame) {
  WeightSample sample = Gptq("gptq", 1);
  // Groups of 8 and of 9 columns are two each.
  sample.quantization = R"({"quant_method": "gptq", "bits": 4, "group_size": 8, "dynamic":
    {"+:.*up.*": {"group_size": 9}}})";
  const auto weight = sample.Read();
  ASSERT_FALSE(weight);
  EXPECT_EQ(weight.error().code, Code::kUnsupported);
  EXPECT_THAT(
      weight.error().message,
      HasSubstr("tensor \"m.qweight\": expected tensors that one of the forms in \"gptq\"'s "
                "config fits, found two that do"));
  // With an index the columns say which group is theirs.
  std::vector<uint32_t> groups(kColumns);
  for (uint32_t i = 0; i < kColumns; ++i) groups[i] = i / 8;
  sample.Add("g_idx", "I32", {kColumns}, BytesOf(groups));
  const auto indexed = sample.Read();
  ASSERT_TRUE(indexed) << indexed.error().message;
  EXPECT_EQ(sample.Values(*indexed), Expected());
}

TEST(GptqWeight, AutoRoundPacksInThreeWays) {
  const std::pair<const char*, WeightSample> packings[] = {
      {"auto_round:auto_gptq", Gptq("gptq", 1)},
      {"auto_round", Gptq("gptq_v2", 0)},
      {"auto_round:auto_awq", Awq()}};
  for (auto [packing, sample] : packings) {
    sample.quantization =
        R"({"quant_method": "auto-round", "bits": 4, "group_size": 8, "data_type": "int",
            "packing_format": ")" +
        std::string(packing) + "\"}";
    const auto weight = sample.Read();
    ASSERT_TRUE(weight) << packing << ": " << weight.error().message;
    EXPECT_EQ(sample.Values(*weight), Expected()) << packing;
  }
}

}  // namespace
}  // namespace moepack
