#include "quant/levels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "quant/format.h"

namespace quant {
namespace {

std::vector<float> RandomValues(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> values(0, 1);
  std::vector<float> out(count);
  for (float& value : out) value = values(random);
  return out;
}

std::vector<float> Decoded(const Format& format, std::span<const std::byte> block) {
  std::vector<float> out(format.block_values);
  format.decode(block, out);
  return out;
}

class LevelGrids : public testing::TestWithParam<const Format*> {
 protected:
  const Format& format() const { return *GetParam(); }
  const LevelGrid& grid() const { return *FindGrid(format()); }
  std::vector<std::byte> EncodedBlock() const {
    std::vector<std::byte> block(format().block_bytes);
    format().encode(RandomValues(format().block_values, 7), {}, block);
    return block;
  }
  // What each value is if all have this level.
  std::vector<float> AllAt(uint8_t level) const {
    std::vector<std::byte> block = EncodedBlock();
    grid().put(std::vector<uint8_t>(format().block_values, level), block);
    return Decoded(format(), block);
  }
};

TEST_P(LevelGrids, ValuesAreBasePlusScaleTimesCode) {
  const size_t last = grid().count - 1;
  const std::vector<float> low = AllAt(0), high = AllAt(static_cast<uint8_t>(last));
  const auto code = [&](size_t level) {
    return grid().codes.empty() ? static_cast<float>(level) : grid().codes[level];
  };
  for (size_t level = 0; level <= last; ++level) {
    const std::vector<float> values = AllAt(static_cast<uint8_t>(level));
    for (size_t i = 0; i < values.size(); ++i) {
      // Of two levels with the same distance the values are in the ratio of their codes.
      const double scale = grid().codes.empty() ? (high[i] - low[i]) / static_cast<double>(last)
                                                : high[i] / code(last);
      const double base = grid().codes.empty() ? low[i] : 0;
      const double wanted = base + scale * code(level);
      ASSERT_NEAR(values[i], wanted, 1e-5 * (std::abs(base) + std::abs(scale * code(last))))
          << format().name << " level " << level << " value " << i;
    }
  }
}

TEST_P(LevelGrids, EachValueHasItsOwnLevel) {
  std::vector<uint8_t> levels(format().block_values);
  for (size_t i = 0; i < levels.size(); ++i)
    levels[i] = static_cast<uint8_t>((i * 7 + i / 16) % grid().count);
  std::vector<std::byte> block = EncodedBlock();
  grid().put(levels, block);
  const std::vector<float> values = Decoded(format(), block);
  for (uint32_t level = 0; level < grid().count; ++level) {
    const std::vector<float> same = AllAt(static_cast<uint8_t>(level));
    for (size_t i = 0; i < levels.size(); ++i)
      if (levels[i] == level) {
        ASSERT_EQ(values[i], same[i]) << format().name << " value " << i;
      }
  }
}

TEST_P(LevelGrids, LevelsOfTheEncoderGiveItsValues) {
  const std::vector<std::byte> block = EncodedBlock();
  const std::vector<float> values = Decoded(format(), block);
  std::vector<uint8_t> levels(values.size(), 255);
  for (uint32_t level = 0; level < grid().count; ++level) {
    const std::vector<float> same = AllAt(static_cast<uint8_t>(level));
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] == same[i]) levels[i] = static_cast<uint8_t>(level);
  }
  std::vector<std::byte> again = block;
  grid().put(levels, again);
  EXPECT_EQ(Decoded(format(), again), values) << format().name;
}

std::vector<const Format*> FormatsWithGrids() {
  std::vector<const Format*> formats;
  for (const Format& format : AllFormats())
    if (FindGrid(format) != nullptr) formats.push_back(&format);
  return formats;
}

INSTANTIATE_TEST_SUITE_P(Types, LevelGrids, testing::ValuesIn(FormatsWithGrids()),
                         [](const auto& one) { return std::string(one.param->name); });

TEST(LevelGrid, TypesWhoseLevelsDependOnEachOtherHaveNone) {
  EXPECT_EQ(FormatsWithGrids().size(), 14u);
  for (const char* name : {"f32", "bf16", "iq2_xxs", "iq3_s", "iq1_m", "tq1_0"})
    EXPECT_EQ(FindGrid(*FindFormat(name)), nullptr) << name;
}

}  // namespace
}  // namespace quant
