#include "quant/plain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "quant/format.h"

namespace quant {
namespace {

using testing::ElementsAre;

std::vector<std::byte> Bytes(std::initializer_list<int> list) {
  std::vector<std::byte> bytes;
  for (const int byte : list) bytes.push_back(static_cast<std::byte>(byte));
  return bytes;
}

std::vector<std::byte> PlainEncode(const char* name, std::vector<float> values) {
  const Format* format = FindFormat(name);
  std::vector<std::byte> out(*format->BytesFor(values.size()));
  format->encode(values, {}, out);
  return out;
}

std::vector<float> PlainDecode(const char* name, const std::vector<std::byte>& bytes) {
  const Format* format = FindFormat(name);
  std::vector<float> out(bytes.size() / format->block_bytes);
  format->decode(bytes, out);
  return out;
}

TEST(Plain, NumbersAreLittleEndian) {
  EXPECT_EQ(PlainEncode("f32", {1.0f}), Bytes({0, 0, 0x80, 0x3f}));
  EXPECT_EQ(PlainEncode("f16", {1.0f, -2.0f}), Bytes({0, 0x3c, 0, 0xc0}));
  EXPECT_EQ(PlainEncode("bf16", {1.0f, -2.0f}), Bytes({0x80, 0x3f, 0, 0xc0}));
  EXPECT_THAT(PlainDecode("f32", Bytes({0, 0, 0x80, 0x3f})), ElementsAre(1.0f));
  EXPECT_THAT(PlainDecode("f16", Bytes({0, 0x3c, 0, 0xc0})), ElementsAre(1.0f, -2.0f));
  EXPECT_THAT(PlainDecode("bf16", Bytes({0x80, 0x3f, 0, 0xc0})), ElementsAre(1.0f, -2.0f));
}

TEST(Plain, EightBitFloatsAreRead) {
  EXPECT_THAT(PlainDecode("f8_e4m3", Bytes({0x38, 0xb8, 0x7e})), ElementsAre(1.0f, -1.0f, 448.0f));
  EXPECT_THAT(PlainDecode("f8_e5m2", Bytes({0x3c, 0xbc, 0x7b})),
              ElementsAre(1.0f, -1.0f, 57344.0f));
  EXPECT_EQ(FindFormat("f8_e4m3")->encode, nullptr);
  EXPECT_EQ(FindFormat("f8_e5m2")->encode, nullptr);
}

TEST(Plain, KeepsEveryBitOfAFloat) {
  const float odd = std::bit_cast<float>(0xff812345u);
  std::vector<float> back(1);
  FindFormat("f32")->decode(PlainEncode("f32", {odd}), back);
  EXPECT_EQ(std::bit_cast<uint32_t>(back[0]), 0xff812345u);
}

TEST(Plain, DoublesAreRoundedAndTooLargeOnesAreInfinite) {
  constexpr double kMax = std::numeric_limits<float>::max();
  const std::vector<double> doubles = {1 + 0x1p-24,    1 + 0x1.8p-24, kMax,   0x1.fffffefp127,
                                       0x1.ffffffp127, -1e300,        1e-300, -0.0};
  std::vector<std::byte> bytes(doubles.size() * 8);
  std::memcpy(bytes.data(), doubles.data(), bytes.size());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> floats = PlainDecode("f64", bytes);
  EXPECT_THAT(floats, ElementsAre(1.0f, 1 + 0x1p-23f, 0x1.fffffep127f, 0x1.fffffep127f, kInfinity,
                                  -kInfinity, 0.0f, -0.0f));
  EXPECT_TRUE(std::signbit(floats[7]));
}

TEST(Plain, ADoubleNanStaysNan) {
  const double nan = std::nan("");
  std::vector<std::byte> bytes(8);
  std::memcpy(bytes.data(), &nan, 8);
  EXPECT_TRUE(std::isnan(PlainDecode("f64", bytes)[0]));
}

}  // namespace
}  // namespace quant
