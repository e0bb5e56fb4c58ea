#include "libshard/convert/weights/weight_fp4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/libshard/convert/weight_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// [2, 2 rows, 1 group]: row r, byte j holds codes (2j + r) and (2j + 1 + r), modulo 16.
WeightSample Mxfp4Sample() {
  WeightSample sample;
  sample.quantization = R"({"quant_method": "mxfp4"})";
  std::string blocks;
  for (unsigned row = 0; row < 4; ++row) {
    for (unsigned j = 0; j < 16; ++j) {
      blocks += static_cast<char>((2 * j + row) % 16 | (2 * j + 1 + row) % 16 << 4);
    }
  }
  sample.Add("blocks", "U8", {2, 2, 1, 16}, blocks);
  sample.Add("scales", "U8", {2, 2, 1}, {127, 126, 'x', 'y'});
  return sample;
}

TEST(Mxfp4Weight, DecodesPairsOfNeighbours) {
  WeightSample sample = Mxfp4Sample();
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_THAT(weight->shape, ElementsAre(2, 2, 32));
  EXPECT_EQ(weight->stored->name, "mxfp4");
  const std::vector<float> values = sample.Values(*weight);
  const float codes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(values[i], codes[i % 16]) << i;
    EXPECT_EQ(values[32 + i], codes[(i + 1) % 16] / 2) << i;
  }
}

TEST(Mxfp4Weight, RepacksBitByBit) {
  WeightSample sample = Mxfp4Sample();
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  const RowReader& reader = *weight->reader;
  const quant::Format* mxfp4 = quant::FindFormat("mxfp4");
  ASSERT_TRUE(reader.CanRepack(mxfp4));
  EXPECT_FALSE(reader.CanRepack(quant::FindFormat("q4_0")));
  std::vector<std::byte> packed(17);
  GridReport report;
  ASSERT_TRUE(reader.Repack(mxfp4, {1, 1, sample.Bytes(reader, 1, 1)}, packed, report));
  EXPECT_EQ(report.weights, 32u);
  EXPECT_EQ(packed[0], std::byte{126});
  // Values 0 and 16 of row 1 have code 1.
  EXPECT_EQ(packed[1], std::byte{0x11});
  std::vector<float> values(32);
  mxfp4->decode(packed, values);
  EXPECT_EQ(values, sample.Rows(reader, 1, 1));
}

TEST(Mxfp4Weight, ANanScaleIsNan) {
  WeightSample sample = Mxfp4Sample();
  sample.Tensor("scales").bytes[1] = static_cast<char>(255);
  const auto weight = sample.Read();
  ASSERT_TRUE(weight);
  EXPECT_TRUE(std::isnan(sample.Rows(*weight->reader, 1, 1)[5]));
  EXPECT_FALSE(std::isnan(sample.Rows(*weight->reader, 0, 1)[5]));
}

// The same codes and scales in whole rows, as three projects store them.
struct RowsOfMxfp4 {
  const char *quantization, *codes, *code_type, *scales, *scale_type;
};
constexpr RowsOfMxfp4 kRowsOfMxfp4[] = {
    {R"({"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "config_groups":
       {"group_0": {"weights": {"num_bits": 4, "type": "float", "strategy": "group",
       "group_size": 32, "scale_dtype": "torch.uint8"}}}})",
     "weight_packed", "U8", "weight_scale", "U8"},
    {R"({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4",
       "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}}})",
     "weight", "U8", "weight_scale", "U8"},
    {R"({"quant_method": "fp8", "weight_block_size": [128, 128]})", "weight", "I8", "scale",
     "F8_E8M0"}};

WeightSample SampleOf(const RowsOfMxfp4& rows) {
  WeightSample blocks = Mxfp4Sample(), sample;
  sample.quantization = rows.quantization;
  sample.Add(rows.codes, rows.code_type, {2, 2, 16}, blocks.Tensor("blocks").bytes);
  sample.Add(rows.scales, rows.scale_type, {2, 2, 1}, blocks.Tensor("scales").bytes);
  return sample;
}

TEST(Mxfp4Weight, WholeRowsAreTheSameWeight) {
  WeightSample blocks = Mxfp4Sample();
  const auto expected = blocks.Read();
  ASSERT_TRUE(expected) << expected.error().message;
  for (const RowsOfMxfp4& rows : kRowsOfMxfp4) {
    WeightSample sample = SampleOf(rows);
    sample.MoveElsewhere(rows.scales);
    const auto weight = sample.Read();
    ASSERT_TRUE(weight) << rows.quantization << weight.error().message;
    EXPECT_THAT(weight->shape, ElementsAre(2, 2, 32));
    EXPECT_EQ(weight->stored->name, "mxfp4");
    EXPECT_EQ(sample.Values(*weight), blocks.Values(*expected)) << rows.quantization;
    const quant::Format* mxfp4 = quant::FindFormat("mxfp4");
    std::vector<std::byte> packed(17), wanted(17);
    GridReport report;
    const RowReader &reader = *weight->reader, &other = *expected->reader;
    ASSERT_TRUE(reader.Repack(mxfp4, {3, 1, sample.Bytes(reader, 3, 1)}, packed, report));
    ASSERT_TRUE(other.Repack(mxfp4, {3, 1, blocks.Bytes(other, 3, 1)}, wanted, report));
    EXPECT_EQ(packed, wanted) << rows.quantization;
  }
}

TEST(Mxfp4Weight, RefusesWholeRowsWithoutScalesOrThatDoNotFit) {
  for (const RowsOfMxfp4& rows : kRowsOfMxfp4) {
    WeightSample sample = SampleOf(rows);
    sample.Tensor(rows.scales).shape = {2, 1, 2};
    EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected [2, 2, 1], found [2, 1, 2]"));
    sample.Tensor(rows.codes).shape = {4, 2, 8};
    EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected [..., a multiple of 16]"));
  }
  WeightSample sample = SampleOf(kRowsOfMxfp4[0]);
  sample.Remove("weight_scale");
  EXPECT_THAT(sample.ErrorText(),
              HasSubstr("\"m.weight_packed\": expected weight_scale_inv or weight_scale or "));
}

TEST(Mxfp4Weight, RefusesScalesThatAreMissingOrDoNotFit) {
  WeightSample sample = Mxfp4Sample();
  sample.Tensor("scales").shape = {4, 1};
  EXPECT_THAT(sample.ErrorText(),
              HasSubstr("\"m.scales\": shape: expected [2, 2, 1], found [4, 1]"));
  sample.Tensor("blocks").shape = {4, 1, 8, 2};
  EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected [..., rows, groups, 16]"));
  sample = Mxfp4Sample();
  sample.Remove("scales");
  EXPECT_THAT(sample.ErrorText(), HasSubstr("\"m.blocks\": expected scales beside it"));
  sample = Mxfp4Sample();
  sample.Tensor("scales").dtype = "I8";
  EXPECT_THAT(sample.ErrorText(), HasSubstr("expected U8, found \"I8\""));
  sample = Mxfp4Sample();
  sample.Remove("blocks");
  EXPECT_THAT(sample.ErrorText(), HasSubstr("expected the codes of \"m\""));
}

// [2 rows, 32 columns]: byte j of row r holds codes (2j + r) and (2j + 1 + r), modulo 16. The
// scales of the four groups are 1, 2, 0.5 and 448; the tensor's is 0.25.
WeightSample Nvfp4Sample(const std::string& codes_leaf, const std::string& tensor_leaf) {
  WeightSample sample;
  sample.quantization = R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})";
  std::string codes;
  for (unsigned row = 0; row < 2; ++row) {
    for (unsigned j = 0; j < 16; ++j)
      codes += static_cast<char>((2 * j + row) % 16 | (2 * j + 1 + row) % 16 << 4);
  }
  sample.Add(codes_leaf, "U8", {2, 16}, codes);
  sample.Add("weight_scale", "F8_E4M3", {2, 2}, {0x38, 0x40, 0x30, 0x7e});
  sample.Add(tensor_leaf, "F32", {}, BytesOf<float>({0.25f}));
  return sample;
}

// The value of code `code` with this scale, before the tensor's scale.
float CodeTimes(size_t code, float scale) {
  constexpr float kCodes[] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                              -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  return kCodes[code % 16] * scale;
}

TEST(Nvfp4Weight, MultipliesCodesWithBothScales) {
  WeightSample sample = Nvfp4Sample("weight", "weight_scale_2");
  sample.Add("input_scale", "F32", {}, BytesOf<float>({7}));
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_THAT(weight->shape, ElementsAre(2, 32));
  EXPECT_EQ(weight->stored->name, "bf16");
  const std::vector<float> values = sample.Values(*weight);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(values[i], CodeTimes(i, 1) * 0.25f) << i;
    EXPECT_EQ(values[16 + i], CodeTimes(i, 2) * 0.25f) << i;
    EXPECT_EQ(values[32 + i], CodeTimes(i + 1, 0.5f) * 0.25f) << i;
    EXPECT_EQ(values[48 + i], CodeTimes(i + 1, 448) * 0.25f) << i;
  }
}

TEST(Nvfp4Weight, DividesByTheTensorsScaleOfCompressedTensors) {
  WeightSample sample = Nvfp4Sample("weight_packed", "weight_global_scale");
  sample.quantization = R"({"quant_method": "compressed-tensors",
      "format": "nvfp4-pack-quantized", "config_groups": {"group_0": {"weights": {}}}})";
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_EQ(sample.Values(*weight)[17], CodeTimes(1, 2) / 0.25f);
}

TEST(Nvfp4Weight, RefusesPartsThatAreMissingOrDoNotFit) {
  const auto error = [](const auto& change) {
    WeightSample sample = Nvfp4Sample("weight", "weight_scale_2");
    change(sample);
    return sample.ErrorText();
  };
  EXPECT_THAT(error([](WeightSample& s) { s.Remove("weight_scale"); }),
              HasSubstr("expected weight_scale beside it, found none"));
  EXPECT_THAT(error([](WeightSample& s) { s.Remove("weight"); }),
              HasSubstr("expected weight_packed or weight beside it, found none"));
  EXPECT_THAT(error([](WeightSample& s) {
                s.Tensor("weight").shape = {8, 4};
              }),
              HasSubstr("shape: expected [..., a multiple of 8], found [8, 4]"));
  EXPECT_THAT(error([](WeightSample& s) {
                s.Tensor("weight_scale").shape = {4, 1};
              }),
              HasSubstr("\"m.weight_scale\": shape: expected [2, 2], found [4, 1]"));
  EXPECT_THAT(
      error([](WeightSample& s) {
        s.Tensor("weight_scale_2") = {"m.weight_scale_2", "F32", {2}, BytesOf<float>({1, 1})};
      }),
      HasSubstr("shape: expected one scale, found [2]"));
  EXPECT_THAT(error([](WeightSample& s) { s.Tensor("weight_scale").dtype = "U8"; }),
              HasSubstr("type: expected F8_E4M3, found \"U8\""));
}

TEST(Nvfp4Weight, ImpossibleScalesAreErrorsWithTheirPlace) {
  WeightSample sample = Nvfp4Sample("weight", "weight_scale_2");
  sample.Tensor("weight_scale").bytes = {0x38, 0x7f, 0x00, 0x38};
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_THAT(sample.RowError(*weight->reader, 0),
              HasSubstr("\"m.weight_scale\": scale at [0, 1]: expected a finite number, found"));
  EXPECT_THAT(sample.RowError(*weight->reader, 1),
              HasSubstr("scale at [1, 0]: expected another number than zero"));
  sample = Nvfp4Sample("weight", "weight_scale_2");
  sample.Tensor("weight_scale_2").bytes = std::string("\0\0\x80\x7f", 4);
  const auto infinite = sample.Read();
  ASSERT_TRUE(infinite);
  EXPECT_THAT(sample.RowError(*infinite->reader, 0), HasSubstr("\"m.weight_scale_2\""));
}

}  // namespace

}  // namespace moepack
