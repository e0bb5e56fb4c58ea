#include "libshard/convert/weights/weight_mxfp4.h"

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

}  // namespace
}  // namespace moepack
