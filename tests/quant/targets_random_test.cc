// Other random rows on every run, for a second per instruction set. A failure prints its seed;
// MOEPACK_STRESS_SEED=<seed> makes that round the first one, MOEPACK_STRESS_SECONDS lasts longer.
#include <chrono>
#include <cstdlib>
#include <random>

#include "tests/quant/same_bytes.h"
#include "tests/quant/stress_rows.h"

namespace quant {
namespace {

class TargetsRandom : public EachInstructionSet {};

uint64_t FirstSeed() {
  if (const char* seed = std::getenv("MOEPACK_STRESS_SEED"))
    return std::strtoull(seed, nullptr, 10);
  return std::random_device()();
}

double Seconds() {
  const char* seconds = std::getenv("MOEPACK_STRESS_SECONDS");
  return seconds != nullptr ? std::strtod(seconds, nullptr) : 1.0;
}

Rows RowsOf(const Format& format, StressRows& stress) {
  Rows rows;
  // About as many values of every format: 1 to 40 super-blocks.
  const size_t blocks = (1 + stress.Below(20)) * (format.block_values == 256 ? 1 : 7);
  const size_t count = 1 + stress.Below(3);
  rows.row_values = blocks * format.block_values;
  for (size_t i = 0; i < count; ++i) {
    rows.names.push_back("random");
    const std::vector<float> row = stress.Values(rows.row_values);
    rows.values.insert(rows.values.end(), row.begin(), row.end());
  }
  if (stress.Below(2) == 0) {
    rows.importance_name = "random";
    rows.importance = stress.Importance(rows.row_values);
  }
  return rows;
}

TEST_P(TargetsRandom, RowsOfManyKinds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(Seconds());
  size_t values = 0;
  for (uint64_t seed = FirstSeed(); std::chrono::steady_clock::now() < end; ++seed) {
    StressRows stress(seed);
    for (const Format* format : Encoders()) {
      const Rows rows = RowsOf(*format, stress);
      ASSERT_TRUE(SameBytes(*format, rows)) << "MOEPACK_STRESS_SEED=" << seed;
      values += rows.values.size();
    }
  }
  EXPECT_GT(values, 0u);
  std::printf("%s: %zu values\n", GetParam().name.c_str(), values);
}

FOR_EACH_INSTRUCTION_SET(TargetsRandom);

}  // namespace
}  // namespace quant
