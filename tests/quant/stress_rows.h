// Random rows that change their kind every few values: grids on which searches find ties, values on
// the edge between two levels, and any mixture that may share a vector.
#pragma once

#include <array>

#include "tests/quant/test_rows.h"

namespace quant {

class StressRows {
 public:
  explicit StressRows(uint64_t seed) : random_(seed) {}

  std::vector<float> Values(size_t count) {
    std::vector<float> values;
    while (values.size() < count) AddSegment(kValueKinds, values);
    values.resize(count);
    if (Below(3) == 0) Scatter(values);
    if (Below(8) == 0) Mirror(values);
    return values;
  }

  // Mostly what a matrix of mean squares holds; one in 16 has arbitrary bits.
  std::vector<float> Importance(size_t count) {
    const bool any = Below(16) == 0;
    std::vector<float> weights;
    while (weights.size() < count) AddSegment(kImportanceKinds, weights);
    weights.resize(count);
    for (float& weight : weights) {
      if (any && Below(4) == 0) weight = AnyBits();
      if (!any) weight = std::abs(weight);
    }
    return weights;
  }

  size_t Below(size_t limit) { return random_.Below(limit); }

 private:
  static constexpr size_t kValueKinds = 12, kImportanceKinds = 7;

  // The properties shared by the values of one segment. Small numbers times a power of two keep
  // every quotient a short fraction.
  struct Segment {
    size_t kind;
    float scale, offset;
    int levels;
  };

  float AnyBits() { return std::bit_cast<float>(static_cast<uint32_t>(random_.Next())); }

  float PowerOfTwo() { return std::ldexp(1.0f, static_cast<int>(Below(40)) - 30); }

  float Level(const Segment& segment) {
    return static_cast<float>(Below(static_cast<size_t>(segment.levels) + 1));
  }

  float Value(const Segment& segment) {
    const float sign = Below(2) == 0 ? 1.0f : -1.0f;
    // Each value of kind 6 has its own scale.
    const float scale = segment.kind == 6 ? PowerOfTwo() : segment.scale;
    switch (segment.kind) {
      case 0:
      case 1:
      case 6:
        return Bell(random_) * scale;
      case 2:
        return sign * Level(segment) * scale;
      case 3:
        return Level(segment) * scale + segment.offset;
      case 4:
        return Below(6) == 0 ? Bell(random_) * scale : 0.0f * sign;
      case 5:
        return AsBfloat16(Bell(random_) * scale);
      case 7:
        return sign * (Level(segment) + 0.5f) * scale;
      case 8:  // on the edge between two levels, and next to it
        return std::nextafter((Level(segment) + 0.5f) * scale, sign * 1e38f);
      case 9:
        return sign * scale;
      case 10:
        return segment.offset + Bell(random_) * 0x1p-20f * segment.offset;
      default:
        const float bits = AnyBits();
        return std::isfinite(bits) ? bits : 0.0f;
    }
  }

  // One random number per statement: compilers differ in the order in which they evaluate operands.
  void AddSegment(size_t kinds, std::vector<float>& values) {
    constexpr std::array kLengths = {16, 32, 32, 64, 256, 256, 512};
    constexpr std::array kLevels = {1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 127};
    Segment segment{};
    segment.kind = Below(kinds);
    segment.scale = PowerOfTwo();
    if (Below(2) == 0) segment.scale *= 0.7f;
    segment.levels = kLevels[Below(kLevels.size())];
    segment.offset = -segment.scale * static_cast<float>(Below(20));
    for (int length = kLengths[Below(kLengths.size())]; length > 0; --length) {
      values.push_back(Value(segment));
    }
  }

  // A few values that spoil their block.
  void Scatter(std::vector<float>& values) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kMax = std::numeric_limits<float>::max();
    constexpr std::array kSpecial = {kInfinity, -kInfinity, kNan,     -kNan,     kMax,     -kMax,
                                     0x1p-149f, -0x1p-140f, -0.0f,    0x1p-126f, 0x1p127f, 1e19f,
                                     -1e19f,    65504.0f,   65520.0f, 1e-15f,    3e-8f,    1e30f};
    for (size_t count = 1 + Below(4); count > 0; --count) {
      const float special = kSpecial[Below(kSpecial.size())];
      values[Below(values.size())] = special;
    }
  }

  // Sums that cancel.
  static void Mirror(std::vector<float>& values) {
    for (size_t i = 0; i + 1 < values.size(); i += 2) values[i + 1] = -values[i];
  }

  fuzz::Random random_;
};

}  // namespace quant
