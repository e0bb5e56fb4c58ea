#include "libshard/convert/weights/weight_int4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/libshard/convert/weight_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kInt4Rows = 3, kInt4Columns = 10;

uint32_t WeightInt4CodeOf(uint64_t row, uint64_t column) {
  return static_cast<uint32_t>((row * 5 + column * 3) % 16);
}

std::string Config(const std::string& symmetric, const std::string& group_size) {
  return R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "symmetric": )" +
         symmetric + R"(, "group_size": )" + group_size + "}}}}";
}

// [3, 10] in groups of 4: two words per row, the second of which is mostly padding.
WeightSample Int4Sample() {
  WeightSample sample;
  sample.quantization = Config("true", "4");
  std::vector<uint32_t> words(kInt4Rows * 2, 0xffffffff);  // padding that must not be read
  for (uint64_t row = 0; row < kInt4Rows; ++row) {
    for (uint64_t column = 0; column < kInt4Columns; ++column) {
      uint32_t& word = words[row * 2 + column / 8];
      word &= ~(15u << (column % 8 * 4));
      word |= WeightInt4CodeOf(row, column) << (column % 8 * 4);
    }
  }
  sample.Add("weight_packed", "I32", {kInt4Rows, 2}, BytesOf(words));
  sample.Add("weight_scale", "F32", {kInt4Rows, 3}, BytesOf<float>({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  sample.Add("weight_shape", "I32", {2}, BytesOf<int32_t>({3, 10}));
  return sample;
}

std::vector<float> WeightInt4Expected(const std::function<float(uint64_t, uint64_t)>& value) {
  std::vector<float> out;
  for (uint64_t row = 0; row < kInt4Rows; ++row) {
    for (uint64_t column = 0; column < kInt4Columns; ++column) out.push_back(value(row, column));
  }
  return out;
}

float Code(uint64_t row, uint64_t column) {
  return static_cast<float>(WeightInt4CodeOf(row, column));
}
float Scale(uint64_t row, uint64_t group) { return static_cast<float>(row * 3 + group + 1); }

TEST(PackedWeight, UnpacksSymmetricGroupsAndDropsThePadding) {
  WeightSample sample = Int4Sample();
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_THAT(weight->shape, ElementsAre(3, 10));
  EXPECT_EQ(weight->stored->name, "bf16");
  EXPECT_FALSE(weight->reader->CanRepack(quant::FindFormat("q4_0"))) << "groups of four";
  EXPECT_EQ(sample.Values(*weight), WeightInt4Expected([](uint64_t row, uint64_t column) {
              return (Code(row, column) - 8) * Scale(row, column / 4);
            }));
}

TEST(PackedWeight, TakesALongShapeAndPartsFromOtherFiles) {
  WeightSample sample = Int4Sample();
  sample.Tensor("weight_shape").dtype = "I64";
  sample.Tensor("weight_shape").bytes = BytesOf<int64_t>({3, 10});
  sample.MoveElsewhere("weight_shape");
  sample.MoveElsewhere("weight_scale");
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_EQ(sample.Rows(*weight->reader, 1, 1)[9], (Code(1, 9) - 8) * Scale(1, 2));
}

TEST(PackedWeight, SubtractsZeroPointsPackedDownTheColumns) {
  WeightSample sample = Int4Sample();
  sample.quantization = Config("false", "4");
  // One word per group: the zeros of rows 0, 1, 2 are 1 + group, 2 + group, 3 + group.
  sample.Add("weight_zero_point", "I32", {1, 3}, BytesOf<uint32_t>({0x321, 0x432, 0x543}));
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_EQ(sample.Values(*weight), WeightInt4Expected([](uint64_t row, uint64_t column) {
              const auto zero = static_cast<float>(1 + row + column / 4);
              return (Code(row, column) - zero) * Scale(row, column / 4);
            }));
}

TEST(PackedWeight, FollowsGroupIndexesAndCountsBadOnes) {
  WeightSample sample = Int4Sample();
  sample.Add("weight_g_idx", "I32", {10}, BytesOf<int32_t>({2, 2, 1, 1, 0, 0, 0, 1, 3, -1}));
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  const std::vector<float> row = sample.Values(*weight);
  EXPECT_EQ(row[0], (Code(0, 0) - 8) * Scale(0, 2));
  EXPECT_EQ(row[4], (Code(0, 4) - 8) * Scale(0, 0));
  EXPECT_TRUE(std::isnan(row[8])) << "group 3 of 3";
  EXPECT_TRUE(std::isnan(row[9]));
}

TEST(PackedWeight, AcceptsOneGroupPerRow) {
  WeightSample sample = Int4Sample();
  sample.quantization = Config("true", "null");
  sample.Tensor("weight_scale").shape = {3, 1};
  sample.Tensor("weight_scale").bytes = BytesOf<float>({1, 2, 4});
  const auto weight = sample.Read();
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_EQ(sample.Rows(*weight->reader, 2, 1)[9], (Code(2, 9) - 8) * 4);
}

TEST(PackedWeight, RefusesImpossibleScalesWithTensorAndPlace) {
  for (const float scale : {NAN, INFINITY, -INFINITY}) {
    WeightSample sample = Int4Sample();
    sample.Tensor("weight_scale").bytes = BytesOf<float>({1, 2, 3, 4, scale, 6, 7, 8, 9});
    const auto weight = sample.Read();
    ASSERT_TRUE(weight);
    EXPECT_EQ(sample.RowError(*weight->reader, 0), "");
    EXPECT_THAT(sample.RowError(*weight->reader, 1),
                HasSubstr("\"m.weight_scale\": scale at [1, 1]: expected a finite number"));
  }
}

TEST(PackedWeight, AScaleOfZeroIsAllowedOnlyForZeros) {
  WeightSample sample = Int4Sample();
  sample.Tensor("weight_scale").bytes = BytesOf<float>({1, 2, 0, 4, 5, 6, 7, 8, 9});
  auto weight = sample.Read();
  ASSERT_TRUE(weight);
  EXPECT_THAT(sample.RowError(*weight->reader, 0),
              HasSubstr("\"m.weight_scale\": scale at [0, 2]: expected another number than zero"));
  // Columns 8 and 9 of row 0.
  std::string& words = sample.Tensor("weight_packed").bytes;
  words[4] = static_cast<char>(0x88);
  weight = sample.Read();
  ASSERT_TRUE(weight);
  EXPECT_EQ(sample.Rows(*weight->reader, 0, 1)[9], 0);
}

// [2, 64] in groups of 32: code i of row r is (3 i + r) modulo 16.
WeightSample Grid(const std::vector<float>& scales, const std::string& group_size = "32") {
  WeightSample sample;
  sample.quantization = Config("true", group_size);
  std::vector<uint32_t> words(16);
  for (uint32_t i = 0; i < 128; ++i) {
    words[i / 8] |= (3 * (i % 64) + i / 64) % 16 << (i % 8 * 4);
  }
  sample.Add("weight_packed", "I32", {2, 8}, BytesOf(words));
  sample.Add("weight_scale", "F32", {2, scales.size() / 2}, BytesOf(scales));
  sample.Add("weight_shape", "I32", {2}, BytesOf<int32_t>({2, 64}));
  return sample;
}

// The values of q4_0 blocks that keep the grid.
std::vector<float> Repacked(const WeightSample& sample, const RowReader& reader,
                            GridReport& report) {
  const quant::Format* q4_0 = quant::FindFormat("q4_0");
  EXPECT_TRUE(reader.CanRepack(q4_0));
  std::vector<std::byte> blocks(*q4_0->BytesFor(reader.rows() * reader.row_values()));
  const std::vector<std::byte> bytes = sample.Bytes(reader, 0, reader.rows());
  const Status status = reader.Repack(q4_0, {0, reader.rows(), bytes}, blocks, report);
  EXPECT_TRUE(status) << status.error().message;
  std::vector<float> values(reader.rows() * reader.row_values());
  q4_0->decode(blocks, values);
  return values;
}

TEST(PackedWeight, KeepsItsGridInQ40) {
  const std::vector<float> scales = {0.5f, 0.0078125f, 3, 6e-5f};
  for (const std::string group_size : {"32", "64", "null"}) {
    WeightSample sample =
        Grid(group_size == "32" ? scales : std::vector<float>{0.5f, 3}, group_size);
    const auto weight = sample.Read();
    ASSERT_TRUE(weight) << weight.error().message;
    GridReport report;
    const std::vector<float> values = Repacked(sample, *weight->reader, report);
    const std::vector<float> exact = sample.Values(*weight);
    EXPECT_EQ(report.weights, 128u);
    if (group_size != "32") {
      EXPECT_EQ(values, exact);
      EXPECT_EQ(report.scales, 2u);
      EXPECT_EQ(report.exact, 2u);
      EXPECT_EQ(report.rounding, 0);
      continue;
    }
    EXPECT_EQ(std::vector<float>(values.begin(), values.begin() + 96),
              std::vector<float>(exact.begin(), exact.begin() + 96));
    EXPECT_EQ(report.scales, 4u);
    EXPECT_EQ(report.exact, 3u) << "6e-5 is a subnormal half";
    EXPECT_GT(report.rounding, 0);
    EXPECT_LT(report.rounding, 1.0 / 1024);
    for (size_t i = 96; i < 128; ++i) {
      EXPECT_LE(std::abs(values[i] - exact[i]), std::abs(exact[i]) * report.rounding * 1.0001);
    }
  }
}

TEST(PackedWeight, AScaleTooSmallForQ40IsReportedAndOneTooLargeRefused) {
  WeightSample sample = Grid({1, 1, 1e-9f, 1});
  auto weight = sample.Read();
  ASSERT_TRUE(weight);
  GridReport report;
  EXPECT_EQ(Repacked(sample, *weight->reader, report)[64], 0);
  EXPECT_EQ(report.rounding, 1) << "it became zero";
  sample = Grid({1, 1, 1, 65520});
  weight = sample.Read();
  ASSERT_TRUE(weight);
  std::vector<std::byte> blocks(36);
  const Status status = weight->reader->Repack(
      quant::FindFormat("q4_0"), {1, 1, sample.Bytes(*weight->reader, 1, 1)}, blocks, report);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnsupported);
  EXPECT_THAT(status.error().message,
              HasSubstr("scale at [1, 1]: expected at most 65504, as the scales of q4_0 can be, "
                        "found 65520"));
  EXPECT_THAT(status.error().hint, HasSubstr("--tensor-type"));
}

TEST(PackedWeight, DoesNotRepackImpossibleScales) {
  for (const float scale : {NAN, -INFINITY, 0.0f}) {
    WeightSample sample = Grid({1, 1, scale, 1});
    const auto weight = sample.Read();
    ASSERT_TRUE(weight);
    std::vector<std::byte> blocks(36);
    GridReport report;
    const Status status = weight->reader->Repack(
        quant::FindFormat("q4_0"), {1, 1, sample.Bytes(*weight->reader, 1, 1)}, blocks, report);
    ASSERT_FALSE(status) << scale;
    EXPECT_THAT(status.error().message, HasSubstr("\"m.weight_scale\": scale at [1, 0]: expected"));
  }
  WeightSample zeros = Grid({1, 1, 0, 1});
  for (size_t i = 32; i < 48; ++i) zeros.Tensor("weight_packed").bytes[i] = '\x88';
  const auto weight = zeros.Read();
  ASSERT_TRUE(weight);
  GridReport report;
  EXPECT_EQ(Repacked(zeros, *weight->reader, report)[64], 0);
  EXPECT_EQ(report.exact, 4u);
}

TEST(PackedWeight, CannotBeRepackedAsQ40WithZeroPointsGroupIndexesOrOddGroups) {
  const quant::Format* q4_0 = quant::FindFormat("q4_0");
  WeightSample sample = Grid({1, 1, 1, 1});
  ASSERT_TRUE(sample.Read()->reader->CanRepack(q4_0));
  EXPECT_FALSE(sample.Read()->reader->CanRepack(quant::FindFormat("q4_1")));
  sample.Add("weight_g_idx", "I32", {64}, BytesOf(std::vector<int32_t>(64)));
  EXPECT_FALSE(sample.Read()->reader->CanRepack(q4_0));
  sample.Remove("weight_g_idx");
  sample.quantization = Config("false", "32");
  sample.Add("weight_zero_point", "I32", {1, 2}, BytesOf<uint32_t>({0x88, 0x88}));
  EXPECT_FALSE(sample.Read()->reader->CanRepack(q4_0));
  sample = Grid({1, 1, 1, 1}, "48");
  EXPECT_FALSE(sample.Read()->reader->CanRepack(q4_0)) << "a block would have two scales";
}

TEST(PackedWeight, RefusesAnIncompleteTriple) {
  for (const std::string part : {"weight_scale", "weight_shape"}) {
    WeightSample sample = Int4Sample();
    sample.Remove(part);
    EXPECT_THAT(sample.ErrorText(),
                HasSubstr("\"m.weight_packed\": expected " + part + " beside it, found none"));
  }
  WeightSample sample = Int4Sample();
  sample.Remove("weight_packed");
  EXPECT_THAT(sample.ErrorText(), HasSubstr("expected the codes of \"m\""));
  sample = Int4Sample();
  sample.quantization = Config("false", "4");
  EXPECT_THAT(sample.ErrorText(), HasSubstr("expected weight_zero_point beside it"));
}

TEST(PackedWeight, RefusesAShapeThatContradicts) {
  for (const std::vector<int32_t>& shape :
       {std::vector<int32_t>{3, 17}, {3, 8}, {4, 10}, {10, 3}, {2147483647, 2147483647}}) {
    WeightSample sample = Int4Sample();
    sample.Tensor("weight_shape").bytes = BytesOf(shape);
    EXPECT_THAT(sample.ErrorText(),
                HasSubstr("\"m.weight_shape\": expected the shape of what [3, 2] words of 8 codes"
                          " hold, found ["));
  }
  WeightSample sample = Int4Sample();
  sample.Tensor("weight_shape").bytes = BytesOf<int32_t>({-3, 10});
  EXPECT_THAT(sample.ErrorText(), HasSubstr("expected two lengths, found -3"));
  sample.Tensor("weight_shape").shape = {1};
  sample.Tensor("weight_shape").bytes = BytesOf<int32_t>({3});
  EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected [2], found [1]"));
}

TEST(PackedWeight, RefusesCompanionsThatDoNotFit) {
  WeightSample sample = Int4Sample();
  sample.Tensor("weight_scale").shape = {3, 3, 1};
  EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected [3, 3], found [3, 3, 1]"));
  sample.quantization = Config("true", "2");
  sample.Tensor("weight_scale").shape = {3, 3};
  EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected [3, 5], found [3, 3]"));
  sample = Int4Sample();
  sample.Add("weight_zero_point", "I32", {3, 1}, BytesOf<uint32_t>({0, 0, 0}));
  EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected [1, 3], found [3, 1]"));
  sample = Int4Sample();
  sample.Add("weight_g_idx", "I32", {3}, BytesOf<uint32_t>({0, 0, 0}));
  EXPECT_THAT(sample.ErrorText(), HasSubstr("shape: expected [10], found [3]"));
}

TEST(PackedWeight, RefusesWordsThatTheConfigDoesNotExplain) {
  WeightSample sample = Int4Sample();
  sample.quantization = R"({"quant_method": "fp8"})";
  EXPECT_THAT(sample.ErrorText(), HasSubstr("format: expected pack-quantized, found \"\""));
  sample = Int4Sample();
  sample.Add("weight_global_scale", "F32", {1}, BytesOf<float>({1}));
  EXPECT_THAT(sample.ErrorText(), HasSubstr("type: expected U8, found \"I32\"")) << "as NVFP4";
}

}  // namespace
}  // namespace moepack
