#include "libshard/pack/encode_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace moepack {
namespace {

std::vector<std::byte> Floats(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> Ramp(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = std::sin(0.37f * static_cast<float>(i)) * static_cast<float>(1 + i % 7);
  }
  return values;
}

OutputTensor Tensor(const char* to, uint64_t row_values) {
  OutputTensor tensor;
  tensor.encoding = std::make_shared<const Encoding>(Encoding{.from = quant::FindFormat("f32"),
                                                              .to = quant::FindFormat(to),
                                                              .row_values = row_values,
                                                              .rows_per_slice = 0,
                                                              .importance = nullptr,
                                                              .reader = nullptr,
                                                              .repack = false});
  return tensor;
}

TEST(RowEncoder, EncodesEveryRowIndependently) {
  const std::vector<float> values = Ramp(64);
  const OutputTensor tensor = Tensor("q8_0", 32);
  std::vector<std::byte> both, first, second;
  RowEncoder encoder;
  EXPECT_EQ(encoder.Encode(tensor, 0, Floats(values), both).not_finite, 0u);
  encoder.Encode(tensor, 0, Floats({values.begin(), values.begin() + 32}), first);
  encoder.Encode(tensor, 1, Floats({values.begin() + 32, values.end()}), second);
  ASSERT_EQ(both.size(), 68u);
  first.insert(first.end(), second.begin(), second.end());
  EXPECT_EQ(both, first);
}

TEST(RowEncoder, CountsValuesThatAreNotFinite) {
  std::vector<float> values = Ramp(64);
  values[3] = NAN;
  values[40] = -INFINITY;
  std::vector<std::byte> out;
  EXPECT_EQ(RowEncoder().Encode(Tensor("bf16", 32), 0, Floats(values), out).not_finite, 2u);
  EXPECT_EQ(out.size(), 128u);
}

TEST(RowEncoder, CountsValuesThatTheTypeCannotHold) {
  std::vector<float> values = Ramp(64);
  values[40] = 1e6f;
  std::vector<std::byte> out;
  EXPECT_EQ(RowEncoder().Encode(Tensor("f16", 32), 0, Floats(values), out).not_finite, 1u);
  EXPECT_EQ(RowEncoder().Encode(Tensor("q8_0", 32), 0, Floats(values), out).not_finite, 0u)
      << "1e6 / 127 is a scale";
  EXPECT_GT(RowEncoder().Encode(Tensor("q4_0", 32), 0, Floats(values), out).not_finite, 0u);
  values[40] = 65504;
  EXPECT_EQ(RowEncoder().Encode(Tensor("f16", 32), 0, Floats(values), out).not_finite, 0u);
}

TEST(RowEncoder, GivesEachExpertItsOwnImportance) {
  // Two experts of one row each; the importance of the second affects only its row.
  const auto importance = std::make_shared<Importance>();
  importance->row_values = 256;
  importance->values.assign(3 * 256, 1.0f);
  for (size_t i = 512; i < 768; ++i) importance->values[i] = i % 16 == 0 ? 500.0f : 0.01f;
  OutputTensor tensor = Tensor("q4_K", 256);
  Encoding encoding = *tensor.encoding;
  encoding.rows_per_slice = 1;
  encoding.importance = importance;
  tensor.encoding = std::make_shared<const Encoding>(encoding);
  const std::vector<float> row = Ramp(256);
  const auto encode = [&](ExpertIds ids, uint64_t first_row) {
    tensor.expert_ids = std::move(ids);
    std::vector<std::byte> out;
    RowEncoder().Encode(tensor, first_row, Floats(row), out);
    return out;
  };
  EXPECT_EQ(encode({0, 2}, 0), encode({0, 1}, 1)) << "0 and 1 have the same weights";
  EXPECT_NE(encode({0, 2}, 0), encode({0, 2}, 1));
  EXPECT_EQ(encode({2}, 0), encode({0, 2}, 1)) << "experts are found by id, not by position";
  EXPECT_EQ(encode({}, 2), encode({2}, 0)) << "without a list of experts, by position";
}

}  // namespace
}  // namespace moepack
