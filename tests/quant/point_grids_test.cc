#include "quant/point_grids.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "quant/format.h"

namespace quant {
namespace {

class PointGrids : public testing::TestWithParam<const Format*> {
 protected:
  const Format& format() const { return *GetParam(); }
  const PointGrid& grid() const { return *FindPointGrid(format()); }

  std::vector<std::byte> EncodedBlock() const {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> values(format().block_values);
    for (float& value : values) value = normal(random);
    std::vector<std::byte> block(format().block_bytes);
    format().encode(values, std::vector<float>(values.size(), 1), block);
    return block;
  }
  std::vector<float> With(std::span<const uint16_t> points, std::span<const uint8_t> signs,
                          std::vector<std::byte> block) const {
    grid().put(points, signs, block);
    std::vector<float> values(format().block_values);
    format().decode(block, values);
    return values;
  }
  std::vector<float> AllOf(size_t point) const {
    return With(
        std::vector<uint16_t>(format().block_values / grid().size, static_cast<uint16_t>(point)),
        std::vector<uint8_t>(format().block_values / kPointRun), EncodedBlock());
  }
};

TEST_P(PointGrids, ValuesAreBasePlusScaleTimesTheSignedCodesOfTheirPoints) {
  const size_t size = grid().size, values = format().block_values;
  const float lowest = grid().codes.front(), highest = grid().codes.back();
  const std::vector<float> low = AllOf(0), high = AllOf(grid().count() - 1);
  const bool has_signs = grid().signs != PointSigns::kNone;
  std::mt19937 random(8);
  std::vector<uint16_t> points(values / size);
  for (uint16_t& point : points) point = static_cast<uint16_t>(random() % grid().count());
  std::vector<uint8_t> signs(values / kPointRun);
  for (uint8_t& sign : signs) {
    if (has_signs) sign = static_cast<uint8_t>(random());
    if (grid().signs == PointSigns::kEven && std::popcount(sign) % 2 == 1) sign ^= 1;
  }
  const std::vector<float> found = With(points, signs, EncodedBlock());
  for (size_t i = 0; i < values; ++i) {
    const float scale = has_signs ? low[i] / lowest : (high[i] - low[i]) / (highest - lowest);
    const float code = grid().codes[points[i / size] * size + i % size];
    const bool minus = (signs[i / kPointRun] >> i % kPointRun & 1) != 0;
    const float wanted = (low[i] - scale * lowest) + (minus ? -scale : scale) * code;
    ASSERT_NEAR(found[i], wanted, 1e-5 * std::abs(scale) * highest) << format().name << " " << i;
  }
}

std::vector<const Format*> FormatsOfPoints() {
  std::vector<const Format*> formats;
  for (const Format& format : AllFormats())
    if (FindPointGrid(format) != nullptr) formats.push_back(&format);
  return formats;
}

INSTANTIATE_TEST_SUITE_P(Types, PointGrids, testing::ValuesIn(FormatsOfPoints()),
                         [](const auto& one) { return std::string(one.param->name); });

TEST(PointGrid, OnlyTypesWithACodeBookHaveOne) {
  EXPECT_EQ(FormatsOfPoints().size(), 7u);
  for (const char* name : {"f32", "q4_K", "iq4_xs", "tq1_0"})
    EXPECT_EQ(FindPointGrid(*FindFormat(name)), nullptr) << name;
}

}  // namespace
}  // namespace quant
