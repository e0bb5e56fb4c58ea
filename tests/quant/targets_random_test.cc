// Other random rows in every run, for a second per instruction set. A failure prints its seed;
// MOEPACK_STRESS_SEED=<seed> makes that round the first one, and MOEPACK_STRESS_SECONDS makes the
// run longer.
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

Rows TargetsRandomRowsOf(const Format& format, StressRows& stress) {
  Rows rows;
  // About as many values for every format: 1 to 40 super-blocks.
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

// Every format has its own stream, so that a seed keeps its meaning when formats are added.
testing::AssertionResult SameBytesFor(uint64_t seed, const Format& format) {
  StressRows stress(seed * 64 + static_cast<uint64_t>(format.ggml_type));
  const testing::AssertionResult same = SameBytes(format, TargetsRandomRowsOf(format, stress));
  if (same) return same;
  return testing::AssertionFailure() << same.message() << "; MOEPACK_STRESS_SEED=" << seed;
}

TEST_P(TargetsRandom, EncodesRandomRowsAlike) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(Seconds());
  uint64_t rounds = 0;
  for (uint64_t seed = FirstSeed(); std::chrono::steady_clock::now() < end; ++seed, ++rounds) {
    for (const Format* format : Encoders()) ASSERT_TRUE(SameBytesFor(seed, *format));
  }
  EXPECT_GT(rounds, 0u);
}

// Minimums above every value of their group, from weights below 0: q2_K, q5_1, q4_K.
constexpr uint64_t kOnceDifferent[] = {336490743, 1064597859, 241048777, 214877881};

TEST_P(TargetsRandom, EncodesSeedsThatOnceDifferedAlike) {
  for (const uint64_t seed : kOnceDifferent) {
    for (const Format* format : Encoders()) EXPECT_TRUE(SameBytesFor(seed, *format));
  }
}

FOR_EACH_INSTRUCTION_SET(TargetsRandom);

}  // namespace
}  // namespace quant
