#include "libshard/convert/weights/weight_fp8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/libshard/convert/weight_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// F8_E4M3 of 1, 2, 4 and -1.
constexpr char kOne = 0x38, kTwo = 0x40, kFour = 0x48;
constexpr char kMinusOne = static_cast<char>(0xb8);

// [3, 5] in blocks of 2 x 2: the last ones are cropped.
WeightSample Blocks() {
  WeightSample sample;
  sample.quantization = R"({"quant_method": "fp8", "weight_block_size": [2, 2]})";
  sample.Add("weight", "F8_E4M3", {3, 5},
             {kOne, kOne, kTwo, kTwo, kFour, kOne, kMinusOne, kTwo, kTwo, kFour, kOne, kOne, kTwo,
              kTwo, kFour});
  sample.Add("weight_scale_inv", "F32", {2, 3}, BytesOf<float>({1, 10, 100, 0.5f, 3, 7}));
  return sample;
}

TEST(ScaledWeight, MultipliesEveryBlockByItsScaleAndCropsTheLastOne) {
  WeightSample sample = Blocks();
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_THAT(weight->shape, ElementsAre(3, 5));
  EXPECT_EQ(weight->stored->name, "bf16");
  EXPECT_EQ(weight->plain, nullptr);
  EXPECT_THAT(sample.Values(*weight), ElementsAre(1, 1, 20, 20, 400, 1, -1, 20, 20, 400,  //
                                                  0.5f, 0.5f, 6, 6, 28));
}

TEST(ScaledWeight, ReadsScalesOfOtherTypesFromOtherFiles) {
  WeightSample sample = Blocks();
  // BF16 of 1, 10, 100, 0.5, 3, 7.
  sample.Tensor("weight_scale_inv").dtype = "BF16";
  sample.Tensor("weight_scale_inv").bytes =
      BytesOf<uint16_t>({0x3f80, 0x4120, 0x42c8, 0x3f00, 0x4040, 0x40e0});
  sample.MoveElsewhere("weight_scale_inv");
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_EQ(sample.Rows(*weight->reader, 2, 1), std::vector<float>({0.5f, 0.5f, 6, 6, 28}));
}

TEST(ScaledWeight, ReadsScalesThatArePowersOfTwo) {
  WeightSample sample = Blocks();
  // 1, 2, 0.25, 2^-127, 2^127 and 1.
  sample.Tensor("weight_scale_inv").dtype = "F8_E8M0";
  sample.Tensor("weight_scale_inv").bytes = BytesOf<uint8_t>({127, 128, 125, 0, 254, 127});
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  const float tiny = std::ldexp(1.0f, -127), huge = std::ldexp(1.0f, 127);
  EXPECT_THAT(sample.Values(*weight), ElementsAre(1, 1, 4, 4, 1, 1, -1, 4, 4, 1,  //
                                                  tiny, tiny, 2 * huge, 2 * huge, 4));
}

TEST(ScaledWeight, RefusesAPowerOfTwoThatIsNan) {
  WeightSample sample = Blocks();
  sample.Tensor("weight_scale_inv").dtype = "F8_E8M0";
  sample.Tensor("weight_scale_inv").bytes = BytesOf<uint8_t>({127, 255, 125, 127, 127, 127});
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_THAT(sample.RowError(*weight->reader, 0),
              HasSubstr("\"m.weight_scale_inv\": scale at [0, 1]: expected a finite number"));
}

TEST(ScaledWeight, ReadsSignedIntegers) {
  WeightSample sample;
  sample.quantization = R"({"quant_method": "compressed-tensors", "format": "int-quantized",
      "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int",
      "strategy": "channel", "group_size": null}}}})";
  sample.Add("weight", "I8", {2, 2}, BytesOf<int8_t>({1, -127, 127, -128}));
  sample.Add("weight_scale", "F32", {2, 1}, BytesOf<float>({0.5f, 2}));
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_EQ(weight->stored->name, "bf16");
  EXPECT_THAT(sample.Values(*weight), ElementsAre(0.5f, -63.5f, 254, -256));
  sample.Add("weight_zero_point", "I8", {2, 1}, BytesOf<int8_t>({0, 0}));
  EXPECT_THAT(sample.ErrorText(),
              HasSubstr("tensor \"m.weight_zero_point\": expected codes without zero points, found "
                        "some (\"compressed-tensors\")"));
}

TEST(ScaledWeight, ReadsGroupsOfSignedIntegers) {
  WeightSample sample;
  sample.quantization = R"({"quant_method": "compressed-tensors", "format": "int-quantized",
      "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int",
      "strategy": "group", "group_size": 2}}}})";
  sample.Add("weight", "I8", {2, 3}, BytesOf<int8_t>({1, 2, 3, 4, 5, 6}));
  sample.Add("weight_scale", "F32", {2, 2}, BytesOf<float>({1, 10, 100, 1000}));
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_THAT(sample.Values(*weight), ElementsAre(1, 2, 30, 400, 500, 6000));
}

TEST(ScaledWeight, GivesEveryPackedExpertItsBlocks) {
  WeightSample sample;
  sample.quantization = R"({"quant_method": "fp8", "weight_block_size": [2, 2]})";
  sample.Add("weight", "F8_E4M3", {2, 3, 2}, std::string(12, kOne));
  sample.Add("weight_scale_inv", "F32", {2, 2, 1}, BytesOf<float>({1, 2, 3, 4}));
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_THAT(sample.Values(*weight), ElementsAre(1, 1, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4));
}

TEST(ScaledWeight, TakesOneScalePerRowMatrixOrTensor) {
  const std::vector<std::pair<std::vector<uint64_t>, std::vector<float>>> cases = {
      {{}, {5}},
      {{1}, {5}},
      {{2}, {5, 6}},
      {{2, 1}, {5, 6}},
      {{2, 1, 1}, {5, 6}},
      {{1, 1, 1}, {5}},
      {{2, 2, 1}, {5, 6, 7, 8}},
      {{2, 2}, {5, 6, 7, 8}}};
  for (const auto& [shape, scales] : cases) {
    WeightSample sample;
    sample.quantization = R"({"quant_method": "compressed-tensors", "format": "float-quantized",
      "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float",
      "strategy": "channel", "block_structure": null}}}})";
    sample.Add("weight", "F8_E4M3", {2, 2, 1}, std::string(4, kTwo));
    sample.Add("weight_scale", "F32", shape, BytesOf(scales));
    const auto weight = sample.Read();
    ASSERT_TRUE(weight) << weight.error().message;
    std::vector<float> expected;
    for (size_t row = 0; row < 4; ++row) expected.push_back(2 * scales[row * scales.size() / 4]);
    EXPECT_EQ(sample.Values(*weight), expected) << scales.size() << " scales";
  }
}

TEST(ScaledWeight, TakesBlocksOfCompressedTensors) {
  WeightSample sample = Blocks();
  sample.quantization = R"({"quant_method": "compressed-tensors", "format": "float-quantized",
      "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float",
      "strategy": "block", "block_structure": [2, 2]}}}})";
  sample.Tensor("weight_scale_inv").name = "m.weight_scale";
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_EQ(sample.Values(*weight)[4], 400);
}

TEST(ScaledWeight, RoundsTheProductOnce) {
  WeightSample sample = Blocks();
  const float third = 1.0f / 3;
  sample.Tensor("weight_scale_inv").bytes = BytesOf<float>({third, third, third, 1, 1, 1});
  const auto weight = sample.Read();
  ASSERT_TRUE(weight);
  EXPECT_EQ(sample.Values(*weight)[4], 4.0f * third);
}

TEST(ScaledWeight, AMissingScaleIsNamed) {
  WeightSample sample = Blocks();
  sample.Remove("weight_scale_inv");
  const auto weight = sample.Read();
  ASSERT_FALSE(weight);
  EXPECT_EQ(weight.error().code, Code::kCorrupt);
  EXPECT_THAT(weight.error().message,
              HasSubstr("a.safetensors: tensor \"m.weight\": expected weight_scale_inv or "));
  EXPECT_THAT(weight.error().hint, HasSubstr("shard"));
}

TEST(ScaledWeight, AScaleWithoutItsWeightIsRefused) {
  WeightSample sample = Blocks();
  sample.Remove("weight");
  EXPECT_THAT(sample.ErrorText(), HasSubstr("\"m.weight_scale_inv\": expected the codes of \"m\""));
}

TEST(ScaledWeight, RefusesScalesOfAnotherShapeOrType) {
  WeightSample sample = Blocks();
  sample.Tensor("weight_scale_inv").shape = {3, 2};
  EXPECT_THAT(sample.ErrorText(), HasSubstr("weight_scale_inv\": shape: expected one scale per "
                                            "block of 2 x 2 of [3, 5], found [3, 2]"));
  sample.Tensor("weight_scale_inv").shape = {6};
  EXPECT_THAT(sample.ErrorText(), HasSubstr("found [6]"));
  sample.quantization = R"({"quant_method": "fp8"})";
  sample.Tensor("weight_scale_inv").shape = {2, 3};
  EXPECT_THAT(sample.ErrorText(), HasSubstr("expected one scale, or one per row of [3, 5]"));
  sample = Blocks();
  sample.Tensor("weight_scale_inv").dtype = "I32";
  EXPECT_THAT(sample.ErrorText(),
              HasSubstr("type: expected F32 or BF16 or F16 or F8_E8M0, found \"I32\" "
                        "(method \"fp8\")"));
  sample = Blocks();
  sample.Tensor("weight").dtype = "I8";
  EXPECT_THAT(sample.ErrorText(),
              HasSubstr("type: expected F8_E4M3, found \"I8\" (method \"fp8\")"));
  EXPECT_EQ(sample.Read().error().code, Code::kUnsupported);
}

TEST(ScaledWeight, RefusesImpossibleScalesWithTensorAndPlace) {
  const std::pair<float, const char*> rows[] = {
      {NAN, "nan"}, {INFINITY, "inf"}, {-INFINITY, "-inf"}};
  for (const auto& [scale, text] : rows) {
    WeightSample sample = Blocks();
    sample.Tensor("weight_scale_inv").bytes = BytesOf<float>({1, 1, 1, 1, 1, scale});
    const auto weight = sample.Read();
    ASSERT_TRUE(weight) << "no data is read before it is needed";
    EXPECT_EQ(sample.RowError(*weight->reader, 1), "");
    EXPECT_THAT(sample.RowError(*weight->reader, 2),
                HasSubstr(std::string("a.safetensors: tensor \"m.weight_scale_inv\": scale at "
                                      "[1, 2]: expected a finite number, found ") +
                          text));
  }
}

TEST(ScaledWeight, AScaleOfZeroIsAllowedOnlyForZeros) {
  WeightSample sample = Blocks();
  sample.Tensor("weight_scale_inv").bytes = BytesOf<float>({1, 0, 1, 1, 1, 1});
  auto weight = sample.Read();
  ASSERT_TRUE(weight);
  EXPECT_THAT(
      sample.RowError(*weight->reader, 1),
      HasSubstr(
          "scale at [0, 1]: expected another number than zero for codes that are not all zero"));
  EXPECT_EQ(sample.RowError(*weight->reader, 2), "") << "row 2 is in another block";
  // Rows 0 and 1, columns 2 and 3; zeros have signs.
  for (const size_t at : {2u, 3u, 7u, 8u}) sample.Tensor("weight").bytes[at] = '\x80';
  weight = sample.Read();
  ASSERT_TRUE(weight);
  EXPECT_EQ(sample.Values(*weight)[2], 0);
}

TEST(ScaledWeight, NamesNoPlaceForAScaleOfTheWholeTensor) {
  WeightSample sample = Blocks();
  sample.quantization = R"({"quant_method": "fp8"})";
  sample.Tensor("weight_scale_inv").shape = {};
  sample.Tensor("weight_scale_inv").bytes = BytesOf<float>({NAN});
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_THAT(sample.RowError(*weight->reader, 0), HasSubstr("scale at []: expected a finite"));
}

TEST(ScaledWeight, ABandReadsOnlyItsColumnsAndTheirScales) {
  WeightSample sample = Blocks();
  const auto weight = sample.Read();
  ASSERT_TRUE(weight);
  const std::vector<float> all = sample.Values(*weight);
  for (uint64_t first = 0; first < 5; ++first) {
    for (uint64_t count = 1; first + count <= 5; ++count) {
      const RowReaderPtr band = weight->reader->Band(first, count);
      ASSERT_NE(band, nullptr);
      const std::vector<float> part = sample.Rows(*band, 0, 3);
      for (uint64_t i = 0; i < 3 * count; ++i) {
        EXPECT_EQ(part[i], all[i / count * 5 + first + i % count]) << first << " " << count;
      }
      const uint64_t scales = (first + count - 1) / 2 - first / 2 + 1;
      EXPECT_EQ(ReadBytes(*band, 0, 3), 3 * count + 2 * scales * sizeof(float));
    }
  }
  const RowReaderPtr inner = weight->reader->Band(1, 4)->Band(2, 2);
  EXPECT_EQ(sample.Rows(*inner, 1, 1), std::vector<float>({all[8], all[9]}));
}

TEST(ScaledWeight, IgnoresScalesOfActivationsAndCaches) {
  WeightSample sample = Blocks();
  sample.Add("input_scale", "F32", {}, BytesOf<float>({1}));
  sample.Add("k_scale", "F32", {}, BytesOf<float>({1}));
  WeightSample plain = Blocks();
  const auto weight = sample.Read(), without = plain.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_EQ(sample.Values(*weight), plain.Values(*without));
}

}  // namespace
}  // namespace moepack
