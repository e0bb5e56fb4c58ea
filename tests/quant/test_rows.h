// Rows of weights to encode: the kinds that models have, and those that break searches. The same on
// every machine.
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "quant/half.h"
#include "tests/fuzz/mutation.h"

namespace quant {

struct TestRow {
  std::string name;
  std::vector<float> values;
};

inline constexpr size_t kRowValues = 512;

// In [-1, 1).
inline float Uniform(fuzz::Random& random) {
  return static_cast<float>(static_cast<int>(random.Below(1u << 24)) - (1 << 23)) * 0x1p-23f;
}

// A sum of four: bell-shaped enough, with exact arithmetic.
inline float Bell(fuzz::Random& random) {
  float sum = 0;
  for (int i = 0; i < 4; ++i) sum += Uniform(random);
  return sum;
}

// Not with a mask: g++ 12.2 loses one of 0xffff0000 on a float in a branch, and rows must be the
// same with every compiler.
inline float AsBfloat16(float value) { return Bfloat16ToFloat(FloatToBfloat16(value)); }

template <class Make>
TestRow MakeRow(std::string name, const Make& make) {
  TestRow row{std::move(name), std::vector<float>(kRowValues)};
  for (size_t i = 0; i < kRowValues; ++i) row.values[i] = make(i);
  return row;
}

inline std::vector<TestRow> RandomRows(uint64_t seed, size_t count) {
  fuzz::Random random(seed);
  std::vector<TestRow> rows;
  for (size_t n = 0; n < count; ++n) {
    const float scale = std::ldexp(1.0f, static_cast<int>(random.Below(24)) - 18);
    const size_t kind = random.Below(5);
    rows.push_back(MakeRow("random " + std::to_string(n), [&](size_t) {
      const float x = Bell(random) * scale;
      if (kind == 1) return x * x * x / (scale * scale);
      if (kind == 2) return std::abs(x);
      if (kind == 3) return random.Below(8) == 0 ? x : 0.0f;
      if (kind == 4) return AsBfloat16(x);
      return x;
    }));
  }
  return rows;
}

inline std::vector<TestRow> FlatRows() {
  constexpr float kMax = std::numeric_limits<float>::max();
  std::vector<TestRow> rows;
  for (const float value : {0.0f, -0.0f, 1.0f, -1.0f, 0.1f, 65504.0f, 1e-15f, 0.99e-15f, 1e-20f,
                            0x1p-126f, 0x1p-149f, -0x1p-140f, 1e19f, 1e30f, kMax, -kMax}) {
    rows.push_back(MakeRow("all " + std::to_string(std::bit_cast<uint32_t>(value)),
                           [value](size_t) { return value; }));
  }
  return rows;
}

inline std::vector<TestRow> PatternRows() {
  constexpr float kMax = std::numeric_limits<float>::max();
  std::vector<TestRow> rows;
  const auto add = [&](const char* name, auto make) { rows.push_back(MakeRow(name, make)); };
  add("alternating", [](size_t i) { return i % 2 == 0 ? 1.0f : -1.0f; });
  add("alternating zeros", [](size_t i) { return i % 2 == 0 ? 0.0f : -0.0f; });
  add("alternating largest", [](size_t i) { return i % 2 == 0 ? kMax : -kMax; });
  add("ramp", [](size_t i) { return static_cast<float>(i) - 200; });
  add("ramp of halves", [](size_t i) { return static_cast<float>(i % 32) * 0.5f - 8; });
  add("ramp of subnormals", [](size_t i) { return static_cast<float>(i) * 0x1p-149f; });
  add("signed subnormals", [](size_t i) { return (static_cast<float>(i) - 99) * 0x1p-140f; });
  add("one outlier", [](size_t i) { return i == 77 ? 1000.0f : 0.001f; });
  add("one negative outlier", [](size_t i) { return i == 300 ? -1e10f : 1.0f; });
  add("one value", [](size_t i) { return i == 130 ? 3.0f : 0.0f; });
  add("one largest", [](size_t i) { return i == 130 ? kMax : 1.0f; });
  add("zeros between", [](size_t i) { return i / 32 % 2 == 0 ? 0.0f : 0.25f; });
  add("around one", [](size_t i) { return 1 + static_cast<float>(i % 7) * 0x1p-23f; });
  add("negative only", [](size_t i) { return -1 - static_cast<float>(i % 13); });
  add("powers of two", [](size_t i) { return std::ldexp(1.0f, static_cast<int>(i % 250) - 125); });
  add("below powers of two", [](size_t i) {
    return std::nextafter(std::ldexp(1.0f, static_cast<int>(i / 32) * 8 - 60), 0.0f);
  });
  add("below powers of two, far", [](size_t i) {
    return std::nextafter(std::ldexp(-1.0f, static_cast<int>(i / 32) - 126), 0.0f);
  });
  add("falling", [](size_t i) { return std::ldexp(1.0f, -static_cast<int>(i / 3)); });
  add("near the zero limit", [](size_t i) { return static_cast<float>(i % 64) * 3e-17f; });
  return rows;
}

// Any finite bits: magnitudes from subnormal to the largest, side by side.
inline std::vector<TestRow> RowsOfAnyBits(uint64_t seed, size_t count) {
  fuzz::Random random(seed);
  std::vector<TestRow> rows;
  for (size_t n = 0; n < count; ++n) {
    rows.push_back(MakeRow("any bits " + std::to_string(n), [&](size_t) {
      const float x = std::bit_cast<float>(static_cast<uint32_t>(random.Next()));
      return std::isfinite(x) ? x : 0.0f;
    }));
  }
  return rows;
}

inline std::vector<TestRow> NonFiniteRows() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<TestRow> rows;
  const auto add = [&](const char* name, auto make) { rows.push_back(MakeRow(name, make)); };
  add("all NaN", [](size_t) { return kNan; });
  add("all infinity", [](size_t) { return kInfinity; });
  add("all minus infinity", [](size_t) { return -kInfinity; });
  add("one NaN", [](size_t i) { return i == 40 ? kNan : 1.0f; });
  add("first NaN", [](size_t i) { return i % 16 == 0 ? -kNan : 0.5f; });
  add("one infinity", [](size_t i) { return i == 40 ? kInfinity : 1.0f; });
  add("both infinities", [](size_t i) { return i % 2 == 0 ? kInfinity : -kInfinity; });
  add("mixed", [](size_t i) { return i % 5 == 0 ? kNan : i % 3 == 0 ? -kInfinity : 2.0f; });
  return rows;
}

inline std::vector<TestRow> Importances(uint64_t seed) {
  fuzz::Random random(seed);
  std::vector<TestRow> rows;
  const auto add = [&](const char* name, auto make) { rows.push_back(MakeRow(name, make)); };
  add("equal", [](size_t) { return 1.0f; });
  add("random", [&](size_t) { return std::abs(Bell(random)); });
  add("wide", [&](size_t) { return std::ldexp(1.0f, static_cast<int>(random.Below(40)) - 20); });
  add("every third zero", [&](size_t i) { return i % 3 == 0 ? 0.0f : std::abs(Uniform(random)); });
  add("one in 32", [](size_t i) { return i % 32 == 5 ? 2.0f : 0.0f; });
  add("two in 32", [&](size_t i) { return i % 16 == 5 ? std::abs(Uniform(random)) : 0.0f; });
  add("zero", [](size_t) { return 0.0f; });
  add("tiny", [&](size_t) { return std::abs(Uniform(random)) * 1e-30f; });
  add("large", [&](size_t) { return std::abs(Uniform(random)) * 1e30f; });
  return rows;
}

}  // namespace quant
