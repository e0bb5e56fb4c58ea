// One call of an encoder or decoder beside the scalar reference, on the current instruction set.
// The message of a difference names its place.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/quant/coders.h"
#include "tests/quant/instruction_sets.h"
#include "tests/quant/test_rows.h"

namespace quant {

// Rows of one length, one after another.
struct Rows {
  size_t row_values = 0;
  std::vector<std::string> names = {};
  std::vector<float> values = {};
  std::string importance_name = {};
  std::vector<float> importance = {};  // of one row, or empty
};

inline Rows Joined(const std::vector<TestRow>& rows) {
  Rows joined{.row_values = rows.front().values.size()};
  for (const TestRow& row : rows) {
    joined.names.push_back(row.name);
    joined.values.insert(joined.values.end(), row.values.begin(), row.values.end());
  }
  return joined;
}

inline Rows With(const TestRow& importance, Rows rows) {
  rows.importance_name = importance.name;
  rows.importance = importance.values;
  return rows;
}

// Bytes that an encoder must not touch.
inline constexpr size_t kGuard = 64;

// The bytes that `encode` writes over bytes that were all `before`, including the guard after them.
inline std::vector<std::byte> EncodeOver(std::byte before, Encoder encode, const Format& format,
                                         const Rows& rows) {
  const size_t bytes = *format.BytesFor(rows.values.size());
  std::vector<std::byte> out(bytes + kGuard, before);
  encode(rows.values, rows.importance, std::span(out).first(bytes));
  return out;
}

inline std::string Where(const Format& format, const Rows& rows, size_t block) {
  const size_t in_row = rows.row_values / format.block_values;
  std::string where = std::string(format.name) + ", " + CurrentInstructionSet();
  if (!rows.importance.empty()) where += ", importance \"" + rows.importance_name + "\"";
  return where + ", row " + std::to_string(block / in_row) + " of " +
         std::to_string(rows.values.size() / rows.row_values) + " (\"" +
         rows.names.at(block / in_row) + "\"), block " + std::to_string(block % in_row) + " of " +
         std::to_string(in_row);
}

inline testing::AssertionResult SameBytes(const Format& format, const Rows& rows) {
  const std::byte unset{0xa5}, other{0x5a};
  const auto expected = EncodeOver(unset, format.encode_reference, format, rows);
  const auto found = EncodeOver(other, format.encode, format, rows);
  const size_t bytes = expected.size() - kGuard;
  if (std::any_of(found.begin() + static_cast<ptrdiff_t>(bytes), found.end(),
                  [=](std::byte byte) { return byte != other; })) {
    return testing::AssertionFailure()
           << Where(format, rows, 0) << ": wrote after the " << bytes << " bytes of its output";
  }
  const auto end = expected.begin() + static_cast<ptrdiff_t>(bytes);
  const auto at = std::mismatch(expected.begin(), end, found.begin());
  if (at.first == end) return testing::AssertionSuccess();
  const auto offset = static_cast<size_t>(at.first - expected.begin());
  return testing::AssertionFailure()
         << Where(format, rows, offset / format.block_bytes) << ": byte "
         << offset % format.block_bytes << ": expected " << static_cast<int>(*at.first)
         << ", found " << static_cast<int>(*at.second);
}

// The values of `blocks`, whole blocks of arbitrary bytes, bit for bit.
inline testing::AssertionResult SameValues(const Format& format, std::span<const std::byte> blocks,
                                           const std::string& name) {
  const size_t count = blocks.size() / format.block_bytes * format.block_values;
  std::vector<float> expected(count, 1.0f), found(count + kGuard, 2.0f);
  format.decode_reference(blocks, expected);
  format.decode(blocks, std::span(found).first(count));
  for (size_t i = 0; i < count + kGuard; ++i) {
    const auto want = std::bit_cast<uint32_t>(i < count ? expected[i] : 2.0f);
    if (std::bit_cast<uint32_t>(found[i]) == want) continue;
    return testing::AssertionFailure()
           << format.name << ", " << CurrentInstructionSet() << ", " << name << ", block "
           << i / format.block_values << ": value " << i << " of " << count
           << ": expected the bits " << want << ", found " << std::bit_cast<uint32_t>(found[i]);
  }
  return testing::AssertionSuccess();
}

// Runs a test once for each instruction set; skipped if the machine lacks it.
class EachInstructionSet : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (!GetParam().present) GTEST_SKIP() << "this machine has no " << GetParam().name;
    hwy::SetSupportedTargetsForTest(GetParam().target);
    ASSERT_EQ(CurrentInstructionSet(), GetParam().name);
  }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

inline void PrintTo(const InstructionSet& set, std::ostream* out) { *out << set.name; }

inline std::string TestSuffix(const testing::TestParamInfo<InstructionSet>& info) {
  return hwy::TargetName(info.param.target);
}

#define FOR_EACH_INSTRUCTION_SET(suite)                                              \
  INSTANTIATE_TEST_SUITE_P(On, suite, testing::ValuesIn(::quant::InstructionSets()), \
                           ::quant::TestSuffix)

}  // namespace quant
