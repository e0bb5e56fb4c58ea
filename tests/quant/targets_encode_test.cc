// Every encoder on every instruction set: the bytes of the scalar reference.
#include <algorithm>
#include <numeric>

#include "tests/quant/golden_cases.h"
#include "tests/quant/same_bytes.h"

namespace quant {
namespace {

class TargetsEncode : public EachInstructionSet {};

std::vector<TestRow> EveryRow() {
  std::vector<TestRow> rows = FlatRows();
  for (auto& more : {PatternRows(), RowsOfAnyBits(5, 12), NonFiniteRows(), RandomRows(6, 40)}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

std::vector<TestRow> EveryImportance() {
  std::vector<TestRow> importances = Importances(2);
  for (auto& more : {NonFiniteRows(), RowsOfAnyBits(3, 2)}) {
    importances.insert(importances.end(), more.begin(), more.end());
  }
  return importances;
}

// A different order each time, so that other rows share the lanes.
void Shuffle(std::vector<TestRow>& rows, uint64_t seed) {
  fuzz::Random random(seed);
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.Below(i)]);
}

TEST_P(TargetsEncode, EncodesGoldenRowsToTheBytesOfGgml) {
  const std::vector<GoldenCase> cases = GoldenCases();
  if (cases.empty()) GTEST_SKIP() << kNoGoldenCases;
  for (const GoldenCase& golden : cases) {
    Rows rows{
        .row_values = golden.row_values,
        .names = std::vector<std::string>(golden.input.size() / golden.row_values, golden.name),
        .values = golden.input,
        .importance_name = "golden",
        .importance = golden.importance};
    EXPECT_TRUE(SameBytes(*golden.format, rows));
    auto bytes = EncodeOver(std::byte{0}, golden.format->encode, *golden.format, rows);
    bytes.resize(bytes.size() - kGuard);
    EXPECT_TRUE(bytes == golden.expected) << golden.name << ", " << GetParam().name;
  }
}

TEST_P(TargetsEncode, EncodesEveryKindOfRowSideBySideAlike) {
  std::vector<TestRow> rows = EveryRow();
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Shuffle(rows, seed);
    for (const Format* format : Encoders()) EXPECT_TRUE(SameBytes(*format, Joined(rows)));
  }
}

// Rows that break a search may hide errors of their neighbours.
TEST_P(TargetsEncode, EncodesEachRowAloneAlike) {
  for (const Format* format : Encoders()) {
    for (const TestRow& row : EveryRow()) EXPECT_TRUE(SameBytes(*format, Joined({row})));
  }
}

TEST_P(TargetsEncode, EncodesEveryKindOfRowWithEveryImportanceAlike) {
  std::vector<TestRow> rows = EveryRow();
  const std::vector<TestRow> importances = EveryImportance();
  for (size_t i = 0; i < importances.size(); ++i) {
    Shuffle(rows, i);
    const std::vector<TestRow> half(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(50));
    const Rows weighted = With(importances[i], Joined(half));
    for (const Format* format : Encoders()) EXPECT_TRUE(SameBytes(*format, weighted));
  }
}

// Ordinary values of any number of blocks, starting at an address that no vector is aligned to.
Rows RowsOf(const Format& format, size_t blocks, size_t count, fuzz::Random& random) {
  Rows rows{.row_values = blocks * format.block_values};
  rows.values.resize(rows.row_values * count);
  for (float& value : rows.values) value = Bell(random) * 0.05f;
  for (size_t i = 0; i < count; ++i) rows.names.push_back(std::to_string(blocks) + " blocks");
  return rows;
}

// Around the lanes of every instruction set (16, 8, 4 or 1) and their multiples.
constexpr size_t kBlocks[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 65};

TEST_P(TargetsEncode, EncodesAnyNumberOfBlocksAlike) {
  fuzz::Random random(7);
  for (const Format* format : Encoders()) {
    for (const size_t blocks : kBlocks) {
      Rows rows = RowsOf(*format, blocks, 1, random);
      EXPECT_TRUE(SameBytes(*format, rows));
      rows.importance_name = "random";
      for (const float value : rows.values) rows.importance.push_back(value * value);
      EXPECT_TRUE(SameBytes(*format, rows));
    }
  }
}

TEST_P(TargetsEncode, EncodesAlikeAtAnyAddress) {
  fuzz::Random random(8);
  for (const Format* format : Encoders()) {
    const Rows rows = RowsOf(*format, 19, 1, random);
    const size_t bytes = *format->BytesFor(rows.values.size());
    const auto expected = EncodeOver(std::byte{0}, format->encode_reference, *format, rows);
    for (size_t shift = 0; shift < 5; ++shift) {
      std::vector<float> values(shift);
      values.insert(values.end(), rows.values.begin(), rows.values.end());
      std::vector<std::byte> out(bytes + shift);
      format->encode(std::span(values).subspan(shift), {}, std::span(out).subspan(shift));
      EXPECT_TRUE(
          std::equal(out.begin() + static_cast<ptrdiff_t>(shift), out.end(), expected.begin()))
          << format->name << ", " << GetParam().name << ", moved by " << shift;
    }
  }
}

// Several rows at once, and each row in a separate call: the same bytes.
void ExpectRowsStandAlone(const Format& format, const Rows& rows) {
  EXPECT_TRUE(SameBytes(format, rows));
  const auto together = EncodeOver(std::byte{0}, format.encode, format, rows);
  const size_t row_bytes = *format.BytesFor(rows.row_values);
  std::vector<std::byte> alone(row_bytes);
  for (size_t i = 0; i * rows.row_values < rows.values.size(); ++i) {
    format.encode(std::span(rows.values).subspan(i * rows.row_values, rows.row_values),
                  rows.importance, alone);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                           together.begin() + static_cast<ptrdiff_t>(i * row_bytes)))
        << Where(format, rows, i * rows.row_values / format.block_values) << ": alone";
  }
}

TEST_P(TargetsEncode, EncodesRowsThatShareAnImportanceAsEachAlone) {
  struct Shape {
    size_t blocks, count;
  };
  fuzz::Random random(9);
  for (const Format* format : Encoders()) {
    for (const auto& [blocks, count] :
         {Shape{1, 2}, Shape{1, 17}, Shape{3, 5}, Shape{5, 3}, Shape{7, 7}, Shape{15, 2},
          Shape{16, 2}, Shape{17, 3}, Shape{2, 33}}) {
      Rows rows = RowsOf(*format, blocks, count, random);
      ExpectRowsStandAlone(*format, rows);
      rows.importance_name = "random";
      for (size_t i = 0; i < rows.row_values; ++i) {
        rows.importance.push_back(random.Below(9) == 0 ? 0 : std::abs(Bell(random)));
      }
      ExpectRowsStandAlone(*format, rows);
    }
  }
}

// The values at which the short floats change, and their neighbours.
TEST_P(TargetsEncode, EncodesEveryHalfAndItsNeighboursAlike) {
  const Format &f16 = *FindFormat("f16"), &bf16 = *FindFormat("bf16");
  for (const Format* format : {&f16, &bf16}) {
    std::vector<std::byte> all(size_t{2} << 16);
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<std::byte>(i % 2 == 0 ? i / 2 & 0xff : i >> 9);
    }
    std::vector<float> exact(size_t{1} << 16);
    format->decode_reference(all, exact);
    Rows rows{.names = {"between"}};
    for (const float value : exact) {
      const uint32_t bits = std::bit_cast<uint32_t>(value);
      // Half a unit above, of a half (bit 12) and of a bfloat16 (bit 15), and around it.
      for (const uint32_t more :
           {0u, 1u, ~0u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u}) {
        rows.values.push_back(std::bit_cast<float>(bits + more));
      }
    }
    rows.row_values = rows.values.size();
    EXPECT_TRUE(SameBytes(*format, rows));
  }
}

FOR_EACH_INSTRUCTION_SET(TargetsEncode);

TEST(Targets, ListTheNativeAndTheScalarInstructionSet) {
  const std::vector<InstructionSet> sets = InstructionSets();
  ASSERT_FALSE(sets.empty());
  EXPECT_TRUE(sets.back().present);
  for (const InstructionSet& set : sets) {
    std::printf("%s: %s\n", set.name.c_str(), set.present ? "tested" : "skipped, not here");
  }
  const std::string best = CurrentInstructionSet();
  const OnInstructionSet scalar(sets.back().target);
  EXPECT_EQ(CurrentInstructionSet(), sets.back().name);
  EXPECT_TRUE(std::any_of(sets.begin(), sets.end(),
                          [&](const InstructionSet& set) { return set.name == best; }));
}

}  // namespace
}  // namespace quant
