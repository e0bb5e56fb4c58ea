#include "libshard/convert/weight_int4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/libshard/weight_sample.h"

namespace shard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kRows = 3, kColumns = 10;

uint32_t CodeOf(uint64_t row, uint64_t column) {
  return static_cast<uint32_t>((row * 5 + column * 3) % 16);
}

std::string Config(const std::string& symmetric, const std::string& group_size) {
  return R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "symmetric": )" +
         symmetric + R"(, "group_size": )" + group_size + "}}}}";
}

// [3, 10] in groups of 4: two words per row, of which the second is mostly padding.
WeightSample Sample() {
  WeightSample sample;
  sample.quantization = Config("true", "4");
  std::vector<uint32_t> words(kRows * 2, 0xffffffff);  // padding that must not be read
  for (uint64_t row = 0; row < kRows; ++row) {
    for (uint64_t column = 0; column < kColumns; ++column) {
      uint32_t& word = words[row * 2 + column / 8];
      word &= ~(15u << (column % 8 * 4));
      word |= CodeOf(row, column) << (column % 8 * 4);
    }
  }
  sample.Add("weight_packed", "I32", {kRows, 2}, BytesOf(words));
  sample.Add("weight_scale", "F32", {kRows, 3}, BytesOf<float>({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  sample.Add("weight_shape", "I32", {2}, BytesOf<int32_t>({3, 10}));
  return sample;
}

std::vector<float> Expected(const std::function<float(uint64_t, uint64_t)>& value) {
  std::vector<float> out;
  for (uint64_t row = 0; row < kRows; ++row) {
    for (uint64_t column = 0; column < kColumns; ++column) out.push_back(value(row, column));
  }
  return out;
}

float Code(uint64_t row, uint64_t column) { return static_cast<float>(CodeOf(row, column)); }
float Scale(uint64_t row, uint64_t group) { return static_cast<float>(row * 3 + group + 1); }

TEST(PackedWeight, UnpacksSymmetricGroupsAndCutsThePadding) {
  WeightSample sample = Sample();
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_THAT(weight->shape, ElementsAre(3, 10));
  EXPECT_EQ(weight->stored->name, "bf16");
  EXPECT_FALSE(weight->reader->CanRepack(quant::FindFormat("q4_0"))) << "stock bytes by default";
  EXPECT_EQ(sample.Values(*weight), Expected([](uint64_t row, uint64_t column) {
              return (Code(row, column) - 8) * Scale(row, column / 4);
            }));
}

TEST(PackedWeight, TakesALongShapeAndPartsFromOtherFiles) {
  WeightSample sample = Sample();
  sample.Tensor("weight_shape").dtype = "I64";
  sample.Tensor("weight_shape").bytes = BytesOf<int64_t>({3, 10});
  sample.MoveElsewhere("weight_shape");
  sample.MoveElsewhere("weight_scale");
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_EQ(sample.Rows(*weight->reader, 1, 1)[9], (Code(1, 9) - 8) * Scale(1, 2));
}

TEST(PackedWeight, SubtractsZeroPointsPackedDownTheColumns) {
  WeightSample sample = Sample();
  sample.quantization = Config("false", "4");
  // One word per group: the zeros of rows 0, 1, 2 are 1 + group, 2 + group, 3 + group.
  sample.Add("weight_zero_point", "I32", {1, 3}, BytesOf<uint32_t>({0x321, 0x432, 0x543}));
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_EQ(sample.Values(*weight), Expected([](uint64_t row, uint64_t column) {
              const auto zero = static_cast<float>(1 + row + column / 4);
              return (Code(row, column) - zero) * Scale(row, column / 4);
            }));
}

TEST(PackedWeight, FollowsGroupIndexesAndCountsBadOnes) {
  WeightSample sample = Sample();
  sample.Add("weight_g_idx", "I32", {10}, BytesOf<int32_t>({2, 2, 1, 1, 0, 0, 0, 1, 3, -1}));
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  const std::vector<float> row = sample.Values(*weight);
  EXPECT_EQ(row[0], (Code(0, 0) - 8) * Scale(0, 2));
  EXPECT_EQ(row[4], (Code(0, 4) - 8) * Scale(0, 0));
  EXPECT_TRUE(std::isnan(row[8])) << "group 3 of 3";
  EXPECT_TRUE(std::isnan(row[9]));
}

TEST(PackedWeight, ARowMayBeOneGroup) {
  WeightSample sample = Sample();
  sample.quantization = Config("true", "null");
  sample.Tensor("weight_scale").shape = {3, 1};
  sample.Tensor("weight_scale").bytes = BytesOf<float>({1, 2, 4});
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_EQ(sample.Rows(*weight->reader, 2, 1)[9], (Code(2, 9) - 8) * 4);
}

TEST(PackedWeight, ScalesThatAreZeroOrNotFiniteShowInTheValues) {
  WeightSample sample = Sample();
  sample.Tensor("weight_scale").bytes = BytesOf<float>({0, NAN, 3, 4, 5, 6, 7, 8, 9});
  const auto weight = sample.Read();
  ASSERT_TRUE(weight);
  const std::vector<float> row = sample.Rows(*weight->reader, 0, 1);
  EXPECT_EQ(row[1], 0);
  EXPECT_TRUE(std::isnan(row[4]));
}

TEST(PackedWeight, RefusesATripleTornApart) {
  for (const std::string part : {"weight_scale", "weight_shape"}) {
    WeightSample sample = Sample();
    sample.Remove(part);
    EXPECT_THAT(sample.ErrorText(),
                HasSubstr("\"m.weight_packed\": expected " + part + " beside it, found none"));
  }
  WeightSample sample = Sample();
  sample.Remove("weight_packed");
  EXPECT_THAT(sample.ErrorText(), HasSubstr("expected the codes of \"m\""));
  sample = Sample();
  sample.quantization = Config("false", "4");
  EXPECT_THAT(sample.ErrorText(), HasSubstr("expected weight_zero_point beside it"));
}

TEST(PackedWeight, RefusesAShapeThatContradicts) {
  for (const std::vector<int32_t>& shape :
       {std::vector<int32_t>{3, 17}, {3, 8}, {4, 10}, {10, 3}, {2147483647, 2147483647}}) {
    WeightSample sample = Sample();
    sample.Tensor("weight_shape").bytes = BytesOf(shape);
    EXPECT_THAT(sample.ErrorText(),
                HasSubstr("\"m.weight_shape\": expected the shape of what [3, 2] words of 8 codes"
                          " hold, found ["));
  }
  WeightSample sample = Sample();
  sample.Tensor("weight_shape").bytes = BytesOf<int32_t>({-3, 10});
  EXPECT_THAT(sample.ErrorText(), HasSubstr("expected two lengths, found -3"));
  sample.Tensor("weight_shape").shape = {1};
  sample.Tensor("weight_shape").bytes = BytesOf<int32_t>({3});
  EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected [2], found [1]"));
}

TEST(PackedWeight, RefusesCompanionsThatDoNotFit) {
  WeightSample sample = Sample();
  sample.Tensor("weight_scale").shape = {3, 3, 1};
  EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected [3, 3], found [3, 3, 1]"));
  sample.quantization = Config("true", "2");
  sample.Tensor("weight_scale").shape = {3, 3};
  EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected [3, 5], found [3, 3]"));
  sample = Sample();
  sample.Add("weight_zero_point", "I32", {3, 1}, BytesOf<uint32_t>({0, 0, 0}));
  EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected [1, 3], found [3, 1]"));
  sample = Sample();
  sample.Add("weight_g_idx", "I32", {3}, BytesOf<uint32_t>({0, 0, 0}));
  EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected [10], found [3]"));
}

TEST(PackedWeight, RefusesWordsThatTheConfigDoesNotExplain) {
  WeightSample sample = Sample();
  sample.quantization = R"({"quant_method": "fp8"})";
  EXPECT_THAT(sample.ErrorText(), HasSubstr("format: expected pack-quantized, found \"\""));
  sample = Sample();
  sample.Add("weight_global_scale", "F32", {1}, BytesOf<float>({1}));
  EXPECT_THAT(sample.ErrorText(),
              HasSubstr("weight_global_scale\": expected numbers in F32, F16, BF16"));
}

}  // namespace
}  // namespace shard
