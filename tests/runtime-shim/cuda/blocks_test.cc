// The decoders of the CUDA kernels, compiled for the host, against those of quant/, bit for bit.
#include "runtime-shim/cuda/blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <string_view>
#include <vector>

#include "quant/format.h"
#include "runtime-shim/cuda/blocks_32.h"
#include "runtime-shim/cuda/blocks_grids.h"
#include "runtime-shim/cuda/blocks_k.h"
#include "runtime-shim/cuda/blocks_ternary.h"
#include "tests/quant/golden_cases.h"

namespace moepack::runtime::cuda {
namespace {

template <class T>
struct Named {
  using Type = T;
  const char* format;
};

// Calls test(Named<Type>) for every type that has a decoder.
template <class Test>
void ForEachType(const Test& test) {
  test(Named<PlainBlock<Plain::kF32, 4>>{"f32"});
  test(Named<PlainBlock<Plain::kF32, 1>>{"f32"});
  test(Named<PlainBlock<Plain::kF16, 8>>{"f16"});
  test(Named<PlainBlock<Plain::kF16, 1>>{"f16"});
  test(Named<PlainBlock<Plain::kBf16, 8>>{"bf16"});
  test(Named<PlainBlock<Plain::kBf16, 1>>{"bf16"});
  test(Named<PlainBlock<Plain::kF8E4M3, 8>>{"f8_e4m3"});
  test(Named<PlainBlock<Plain::kF8E4M3, 1>>{"f8_e4m3"});
  test(Named<PlainBlock<Plain::kF8E5M2, 8>>{"f8_e5m2"});
  test(Named<PlainBlock<Plain::kF8E5M2, 1>>{"f8_e5m2"});
  test(Named<Q80>{"q8_0"});
  test(Named<Q40>{"q4_0"});
  test(Named<Q41>{"q4_1"});
  test(Named<Q50>{"q5_0"});
  test(Named<Q51>{"q5_1"});
  test(Named<Iq4Nl>{"iq4_nl"});
  test(Named<Mxfp4>{"mxfp4"});
  test(Named<Nvfp4>{"nvfp4"});
  test(Named<Q2K>{"q2_K"});
  test(Named<Q3K>{"q3_K"});
  test(Named<Q4K>{"q4_K"});
  test(Named<Q5K>{"q5_K"});
  test(Named<Q6K>{"q6_K"});
  test(Named<Iq4Xs>{"iq4_xs"});
  test(Named<Tq10>{"tq1_0"});
  test(Named<Tq20>{"tq2_0"});
  test(Named<Iq1S>{"iq1_s"});
  test(Named<Iq1M>{"iq1_m"});
  test(Named<Iq2Xxs>{"iq2_xxs"});
  test(Named<Iq2Xs>{"iq2_xs"});
  test(Named<Iq2S>{"iq2_s"});
  test(Named<Iq3Xxs>{"iq3_xxs"});
  test(Named<Iq3S>{"iq3_s"});
}

// Values that no part decodes keep a value that no test expects.
template <class Type>
std::vector<float> DecodeParts(const std::vector<std::byte>& blocks) {
  const size_t count = blocks.size() / Type::kBytes;
  std::vector<float> values(count * Type::kValues, 12345.678f);
  for (size_t b = 0; b < count; ++b) {
    const auto* const block = reinterpret_cast<const uint8_t*>(blocks.data()) + b * Type::kBytes;
    for (int part = 0; part < Type::kParts; ++part) {
      const auto loaded = Type::Load(block, part);
      for (int g = 0; g < Type::kGroups; ++g) {
        const auto group = Type::Decode(loaded, part, g);
        const size_t first = b * Type::kValues + static_cast<size_t>(Type::First(part, g));
        for (int i = 0; i < Type::kGroupValues; ++i)
          values[first + static_cast<size_t>(i)] = group.template Value<Type>(i);
      }
    }
  }
  return values;
}

// NaN has many encodings, all equally good.
void ExpectSameBits(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i]))
        << "value " << i << ": expected " << expected[i] << ", found " << found[i];
  }
}

template <class Type>
void CompareDecoders(const quant::Format& format, const std::vector<std::byte>& blocks) {
  std::vector<float> expected(blocks.size() / format.block_bytes * format.block_values);
  format.decode(blocks, expected);
  ExpectSameBits(DecodeParts<Type>(blocks), expected);
}

TEST(CudaBlocks, DecodeAnyBytesLikeTheFormats) {
  std::mt19937 random(6);
  ForEachType([&](auto named) {
    using Type = typename decltype(named)::Type;
    SCOPED_TRACE(named.format);
    const quant::Format& format = *quant::FindFormat(named.format);
    ASSERT_EQ(Type::kBytes * format.block_values, Type::kValues * format.block_bytes);
    std::vector<std::byte> blocks(Type::kBytes * 2000);
    for (std::byte& byte : blocks) byte = static_cast<std::byte>(random() & 0xff);
    CompareDecoders<Type>(format, blocks);
  });
}

TEST(CudaBlocks, DecodeEncodedValuesLikeTheFormats) {
  std::normal_distribution<float> normal(0, 0.5f);
  std::mt19937 random(7);
  size_t compared = 0;
  ForEachType([&](auto named) {
    using Type = typename decltype(named)::Type;
    const quant::Format& format = *quant::FindFormat(named.format);
    if (format.encode == nullptr) return;
    SCOPED_TRACE(named.format);
    std::vector<float> values(size_t{Type::kValues} * 64);
    for (float& value : values) value = normal(random);
    std::vector<std::byte> blocks(*format.BytesFor(values.size()));
    format.encode(values, {}, blocks);
    CompareDecoders<Type>(format, blocks);
    ++compared;
  });
  EXPECT_GE(compared, 10u);
}

TEST(CudaBlocks, DecodeTheGoldenBlocks) {
  const auto cases = quant::GoldenCases();
  if (cases.empty()) GTEST_SKIP() << quant::kNoGoldenCases;
  std::set<std::string_view> seen;
  ForEachType([&](auto named) {
    for (const quant::GoldenCase& golden : cases) {
      if (golden.format->name != named.format) continue;
      SCOPED_TRACE(golden.name);
      seen.insert(named.format);
      CompareDecoders<typename decltype(named)::Type>(*golden.format, golden.expected);
    }
  });
  EXPECT_GE(seen.size(), 10u);
}

// The tile kernels take the parts of the first 128 columns, then those of the next.
TEST(CudaBlocks, PartsOf128ValuesAreConsecutive) {
  ForEachType([&](auto named) {
    using Type = typename decltype(named)::Type;
    SCOPED_TRACE(named.format);
    constexpr int kPartValues = Type::kGroups * Type::kGroupValues;
    for (int part = 0; part < Type::kParts; ++part) {
      for (int g = 0; g < Type::kGroups; ++g) {
        const int first = Type::First(part, g);
        EXPECT_EQ(first / 128, part * kPartValues / 128);
        EXPECT_EQ((first + Type::kGroupValues - 1) / 128, first / 128);
      }
    }
  });
}

TEST(CudaBlocks, ConvertBytesToFloatsExactly) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t word = (0xa5c3f01e & ~(0xffu << 8 * k)) | byte << 8 * k;
      EXPECT_EQ(CenteredByte(word, k), static_cast<float>(byte) - 128);
      if (byte >= 128) continue;
      EXPECT_EQ(LiftedByte(word, k), static_cast<float>(byte) + kLift);
    }
  }
}

}  // namespace
}  // namespace moepack::runtime::cuda
