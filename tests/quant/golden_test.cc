// Every encoder and decoder against the bytes that ggml gave for fixed inputs;
// fixtures/golden/quant has a README.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "tests/quant/golden_cases.h"

namespace quant {
namespace {

std::vector<std::byte> GoldenEncode(const GoldenCase& golden) {
  std::vector<std::byte> out(golden.expected.size());
  const size_t row_bytes = *golden.format->BytesFor(golden.row_values);
  const std::span<const float> input = golden.input;
  for (size_t row = 0; row * golden.row_values < input.size(); ++row) {
    golden.format->encode(input.subspan(row * golden.row_values, golden.row_values),
                          golden.importance, std::span(out).subspan(row * row_bytes, row_bytes));
  }
  return out;
}

double RelativeError(const GoldenCase& golden) {
  std::vector<float> decoded(golden.input.size());
  golden.format->decode(golden.expected, decoded);
  double error = 0, total = 0;
  for (size_t i = 0; i < decoded.size(); ++i) {
    const double x = golden.input[i];
    error += (decoded[i] - x) * (decoded[i] - x);
    total += x * x;
  }
  return std::sqrt(error / total);
}

class Golden : public testing::Test {
 protected:
  void SetUp() override {
    cases_ = GoldenCases();
    if (cases_.empty()) GTEST_SKIP() << kNoGoldenCases;
  }

  std::vector<GoldenCase> cases_;
};

TEST_F(Golden, EveryEncoderGivesTheBytesOfGgml) {
  EXPECT_GE(cases_.size(), 340u);
  for (const GoldenCase& golden : cases_) {
    ASSERT_NE(golden.format, nullptr) << golden.name;
    ASSERT_NE(golden.format->encode, nullptr) << golden.name;
    const std::vector<std::byte> ours = GoldenEncode(golden);
    size_t different = 0;
    for (size_t at = 0; at < ours.size(); at += golden.format->block_bytes) {
      different += std::memcmp(&ours[at], &golden.expected[at], golden.format->block_bytes) != 0;
    }
    EXPECT_EQ(different, 0u) << golden.name << ": blocks that differ";
  }
}

TEST_F(Golden, EveryDecoderHasTheExpectedError) {
  for (const GoldenCase& golden : cases_) {
    ASSERT_NE(golden.format->decode, nullptr) << golden.name;
    EXPECT_NEAR(RelativeError(golden), golden.error, 1e-5 * golden.error + 1e-9) << golden.name;
  }
}

TEST_F(Golden, CoversEveryTypeWithAnEncoder) {
  std::set<std::string_view> plain, weighted;
  for (const GoldenCase& golden : cases_) {
    (golden.importance.empty() ? plain : weighted).insert(golden.format->name);
  }
  for (const Format& format : AllFormats()) {
    if (format.encode == nullptr || format.name == "f32") continue;
    EXPECT_EQ(plain.count(format.name), format.needs_importance ? 0u : 1u) << format.name;
    EXPECT_EQ(weighted.count(format.name), format.uses_importance ? 1u : 0u) << format.name;
  }
}

}  // namespace
}  // namespace quant
