// Promises of every row of AllFormats(), on rows that models do not have: the same bytes each time,
// no undefined behaviour (run under sanitizers), values that decode.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/quant/coders.h"
#include "tests/quant/digest.h"
#include "tests/quant/test_rows.h"

namespace quant {
namespace {

std::vector<std::byte> Encode(const Format& format, std::span<const float> values,
                              std::span<const float> importance = {}) {
  std::vector<std::byte> out(*format.BytesFor(values.size()), std::byte{0xa5});
  format.encode(values, importance, out);
  return out;
}

std::vector<float> Decode(const Format& format, std::span<const std::byte> blocks) {
  std::vector<float> out(blocks.size() / format.block_bytes * format.block_values);
  format.decode(blocks, out);
  return out;
}

std::vector<TestRow> EveryKindOfRow() {
  std::vector<TestRow> rows = FlatRows();
  for (auto& more : {PatternRows(), RowsOfAnyBits(5, 10), NonFiniteRows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

// The first row leaves the stack and the output different from what the second call finds.
TEST(AnyValues, GiveTheSameBytesEachTime) {
  const TestRow other = RandomRows(1, 1)[0];
  for (const Format* format : Encoders()) {
    for (const TestRow& row : EveryKindOfRow()) {
      const std::vector<std::byte> first = Encode(*format, row.values);
      Encode(*format, other.values);
      EXPECT_EQ(Encode(*format, row.values), first) << format->name << ", " << row.name;
      EXPECT_EQ(Decode(*format, first).size(), row.values.size());
    }
  }
}

TEST(AnyValues, GiveTheSameBytesEachTimeWithAnyImportance) {
  std::vector<TestRow> importances = Importances(2);
  for (auto& more : NonFiniteRows()) importances.push_back(more);
  for (const Format* format : Encoders()) {
    if (!format->uses_importance) continue;
    for (const TestRow& row : EveryKindOfRow()) {
      for (const TestRow& importance : importances) {
        EXPECT_EQ(Encode(*format, row.values, importance.values),
                  Encode(*format, row.values, importance.values))
            << format->name << ", " << row.name << ", " << importance.name;
      }
    }
  }
}

// Compilers, flags and machines must not change a byte, NaN and overflow included. The values were
// made with g++ 12 on x86-64; for finite rows the peer test checks the bytes.
TEST(AnyValues, GiveTheSameBytesOnEveryMachine) {
  std::vector<TestRow> importances = Importances(2);
  for (auto& more : NonFiniteRows()) importances.push_back(more);
  TypeDigests digests;
  for (const Format* format : Encoders()) {
    for (const TestRow& row : EveryKindOfRow()) {
      DigestOfType(format->name, Encode(*format, row.values), digests);
      if (!format->uses_importance) continue;
      for (const TestRow& importance : importances) {
        DigestOfType(format->name, Encode(*format, row.values, importance.values), digests);
      }
    }
  }
  const TypeDigests expected = {
      {"bf16", 11419399571292992134u},   {"f16", 251222390436978070u},
      {"f32", 7933666507185101759u},     {"iq2_s", 5644384664437407465u},
      {"iq2_xs", 7323612638649629409u},  {"iq2_xxs", 5614730826577179458u},
      {"iq3_s", 7580516426708624790u},   {"iq3_xxs", 11234152851459314121u},
      {"iq4_nl", 12769096264115015159u}, {"iq4_xs", 8673645593418641038u},
      {"mxfp4", 3936707331254065121u},   {"q2_K", 12572390353639506741u},
      {"q3_K", 7037630851737503894u},    {"q4_0", 18256405851190413544u},
      {"q4_1", 1439513044263935815u},    {"q4_K", 15561533437586171835u},
      {"q5_0", 10692397900148949871u},   {"q5_1", 16868391570708402851u},
      {"q5_K", 18275415471351952363u},   {"q6_K", 7969605935704033470u},
      {"q8_0", 2894901012314554538u},    {"iq1_m", 2978797943898695743u},
      {"iq1_s", 7906748672261760873u},   {"nvfp4", 13973770861321069905u},
      {"tq1_0", 3694045015310814070u},   {"tq2_0", 9624505865749970487u}};
  for (const auto& [type, digest] : digests) {
    const auto known = expected.find(type);
    EXPECT_EQ(digest, known == expected.end() ? 0 : known->second) << type;
  }
  EXPECT_EQ(digests.size(), expected.size());
}

// The largest error of a value is half the widest step between neighbours, which follows from the
// block's largest magnitude; the factors are those steps, with room for the rounding of scales. In
// iq1_m, zeros have no weight without importance, and in sparse rows they may become anything.
TEST(AnyValues, DecodeCloseToTheInput) {
  const std::map<std::string_view, float> bounds = {
      {"f32", 0.0f},    {"f16", 0.0005f},  {"bf16", 0.004f},  {"q8_0", 0.005f},  {"q6_K", 0.06f},
      {"q5_K", 0.1f},   {"q4_K", 0.2f},    {"q3_K", 0.35f},   {"q2_K", 0.8f},    {"q4_0", 0.13f},
      {"q4_1", 0.07f},  {"q5_0", 0.07f},   {"q5_1", 0.04f},   {"iq4_nl", 0.15f}, {"iq4_xs", 0.2f},
      {"mxfp4", 0.26f}, {"iq2_xxs", 0.6f}, {"iq2_xs", 0.55f}, {"iq2_s", 0.7f},   {"iq3_xxs", 0.55f},
      {"iq3_s", 0.45f}, {"iq1_s", 1.1f},   {"iq1_m", 8.0f},   {"tq1_0", 0.51f},  {"tq2_0", 0.51f},
      {"nvfp4", 0.6f}};
  for (const Format* format : Encoders()) {
    ASSERT_EQ(bounds.count(format->name), 1u) << format->name;
    for (const TestRow& row : RandomRows(21, 60)) {
      const std::vector<float> decoded = Decode(*format, Encode(*format, row.values));
      float largest = 0, worst = 0;
      for (size_t i = 0; i < decoded.size(); ++i) {
        largest = std::max(largest, std::abs(row.values[i]));
        worst = std::max(worst, std::abs(decoded[i] - row.values[i]));
      }
      // Scales below the range of F16 behave differently; those rows are left out.
      if (largest < 0.01f) continue;
      EXPECT_LE(worst, bounds.at(format->name) * largest) << format->name << ", " << row.name;
    }
  }
}

TEST(AnyValues, ZerosDecodeToZeros) {
  const std::vector<float> zeros(kRowValues);
  for (const Format* format : Encoders()) {
    const std::vector<float> decoded = Decode(*format, Encode(*format, zeros));
    EXPECT_TRUE(std::all_of(decoded.begin(), decoded.end(), [](float x) { return x == 0; }))
        << format->name;
  }
}

// Callers may rely on this to encode a row in pieces if there is no importance.
TEST(AnyValues, BlocksAreIndependentWithoutImportance) {
  const TestRow row = RandomRows(4, 1)[0];
  for (const Format* format : Encoders()) {
    const size_t half = kRowValues / 2;
    std::vector<std::byte> pieces = Encode(*format, std::span(row.values).first(half));
    const std::vector<std::byte> second = Encode(*format, std::span(row.values).subspan(half));
    pieces.insert(pieces.end(), second.begin(), second.end());
    EXPECT_EQ(pieces, Encode(*format, row.values)) << format->name;
  }
}

TEST(AnyValues, NoValuesTakeNoBytes) {
  for (const Format& format : AllFormats()) {
    if (format.encode != nullptr) format.encode({}, {}, {});
    if (format.decode != nullptr) format.decode({}, {});
    EXPECT_EQ(format.BytesFor(0), 0u);
  }
}

TEST(AnyValues, EveryEncoderHasADecoder) {
  EXPECT_EQ(Encoders().size(), 26u);
  for (const Format* format : Encoders()) EXPECT_NE(format->decode, nullptr) << format->name;
}

}  // namespace
}  // namespace quant
