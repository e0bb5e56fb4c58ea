// Every decoder on every instruction set: the values of the scalar reference, bit for bit.
#include <cstring>

#include "tests/quant/same_bytes.h"

namespace quant {
namespace {

class TargetsDecode : public EachInstructionSet {};

std::vector<std::byte> AnyBytes(size_t count, fuzz::Random& random) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next());
  return bytes;
}

TEST_P(TargetsDecode, DecodesAnyBytesAlike) {
  fuzz::Random random(1);
  for (const Format* format : Decoders()) {
    const size_t blocks = 40000 / format->block_values;
    for (int n = 0; n < 5; ++n) {
      EXPECT_TRUE(SameValues(*format, AnyBytes(blocks * format->block_bytes, random), "any bytes"));
    }
  }
}

TEST_P(TargetsDecode, DecodesAnyNumberOfBlocksAtAnyAddressAlike) {
  fuzz::Random random(2);
  for (const Format* format : Decoders()) {
    for (size_t blocks = 0; blocks <= 70; ++blocks) {
      const size_t bytes = blocks * format->block_bytes, shift = random.Below(17);
      const std::vector<std::byte> file = AnyBytes(bytes + shift, random);
      EXPECT_TRUE(
          SameValues(*format, std::span(file).subspan(shift),
                     std::to_string(blocks) + " blocks, moved by " + std::to_string(shift)));
    }
  }
}

TEST_P(TargetsDecode, DecodesEveryShortFloatAlike) {
  std::vector<std::byte> halves(size_t{2} << 16), bytes(256);
  for (size_t i = 0; i < halves.size(); ++i) {
    halves[i] = static_cast<std::byte>(i % 2 == 0 ? i / 2 & 0xff : i >> 9);
  }
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  for (const char* name : {"f16", "bf16"}) {
    EXPECT_TRUE(SameValues(*FindFormat(name), halves, "every pair of bytes"));
  }
  for (const char* name : {"f8_e4m3", "f8_e5m2"}) {
    EXPECT_TRUE(SameValues(*FindFormat(name), bytes, "every byte"));
  }
}

// The scale is where NaN, infinity and subnormals come from in a block.
TEST_P(TargetsDecode, DecodesEveryScaleAlike) {
  fuzz::Random random(3);
  for (const Format* format : Decoders()) {
    if (format->block_values == 1) continue;
    std::vector<std::byte> file = AnyBytes(size_t{format->block_bytes} << 12, random);
    for (size_t block = 0; block < file.size() / format->block_bytes; ++block) {
      const size_t scale = block * 16 + random.Below(16);
      for (const size_t at : {size_t{0}, size_t{format->block_bytes} - 2}) {
        file[block * format->block_bytes + at] = static_cast<std::byte>(scale & 0xff);
        file[block * format->block_bytes + at + 1] = static_cast<std::byte>(scale >> 8);
      }
    }
    EXPECT_TRUE(SameValues(*format, file, "every scale"));
  }
}

// A block with a scale and a minimum has them next to each other. If both are NaN, the result is
// one of the two.
TEST_P(TargetsDecode, DecodesEveryPairOfUnusualScalesAlike) {
  fuzz::Random random(4);
  const std::vector<uint16_t> scales = {0x0000, 0x8000, 0x0001, 0x83ff, 0x3c00, 0x7c00,
                                        0xfc00, 0x7c01, 0xfd23, 0x7e00, 0xffff};
  for (const Format* format : Decoders()) {
    if (format->block_values == 1) continue;
    const size_t bytes = format->block_bytes, pairs = scales.size() * scales.size();
    for (const size_t at : {size_t{0}, size_t{2}, bytes - 4}) {
      std::vector<std::byte> file = AnyBytes(pairs * bytes, random);
      for (size_t n = 0; n < pairs; ++n) {
        const uint16_t both[] = {scales[n / scales.size()], scales[n % scales.size()]};
        std::memcpy(file.data() + n * bytes + at, both, sizeof(both));
      }
      EXPECT_TRUE(SameValues(*format, file, "scales at byte " + std::to_string(at)));
    }
  }
}

TEST_P(TargetsDecode, DecodesDoublesAroundEveryFloatLimitAlike) {
  std::vector<double> doubles;
  for (const float edge : {0.0f, 0x1p-149f, 0x1p-126f, 1.0f, 0x1.fffffep127f}) {
    for (const double at : {double{edge}, double{edge} * (1 + 0x1p-24), double{edge} * 0.5}) {
      for (const double sign : {1.0, -1.0}) {
        doubles.insert(doubles.end(), {sign * at, sign * std::nextafter(at, 0.0),
                                       sign * std::nextafter(at, 1e308)});
      }
    }
  }
  doubles.insert(doubles.end(), {1e300, -1e300, INFINITY, -INFINITY, NAN, 5e-324});
  EXPECT_TRUE(SameValues(*FindFormat("f64"), std::as_bytes(std::span(doubles)), "edges"));
}

FOR_EACH_INSTRUCTION_SET(TargetsDecode);

}  // namespace
}  // namespace quant
