#include "libshard/base/files/same_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/temp_dir.h"
#include "libshard/base/parallel.h"

namespace moepack {
namespace {

Result<bool> Compare(const fixtures::TempDir& one, const fixtures::TempDir& other) {
  return HaveSameBytes(InsideDirectory::Open(one.path()).value(),
                       InsideDirectory::Open(other.path()).value(), "f");
}

bool AreSame(const std::string& one, const std::string& other) {
  const fixtures::TempDir first, second;
  fixtures::WriteFile(first / "f", one);
  fixtures::WriteFile(second / "f", other);
  return Compare(first, second).value();
}

TEST(HaveSameBytes, ComparesEveryByteOfFilesOfOneSize) {
  EXPECT_TRUE(AreSame("", ""));
  EXPECT_FALSE(AreSame("", "x"));
  // As long as a piece that is read at once, a byte shorter and a byte longer.
  const size_t piece = 1u << 20;
  for (const size_t size : {piece - 1, piece, piece + 1}) {
    const std::string bytes(size, 'x');
    EXPECT_TRUE(AreSame(bytes, bytes)) << size;
    EXPECT_FALSE(AreSame(bytes, bytes + "x")) << size;
    for (const size_t at : {size_t{0}, size / 2, size - 1}) {
      std::string other = bytes;
      other[at] = 'y';
      EXPECT_FALSE(AreSame(bytes, other)) << size << " at " << at;
    }
  }
}

TEST(HaveSameBytes, AFileThatCannotBeReadIsAnErrorAndNoDifference) {
  const fixtures::TempDir one, other;
  fixtures::WriteFile(one / "f", "x");
  const Result<bool> missing = Compare(one, other);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  fs::create_symlink(one / "f", other / "f");
  const Result<bool> link = Compare(one, other);
  ASSERT_FALSE(link);
  EXPECT_THAT(link.error().message, testing::HasSubstr("expected a regular file, found a link"));
}

TEST(HaveSameBytes, StopsWhenTheUserInterruptsIt) {
  const fixtures::TempDir one, other;
  fixtures::WriteFile(one / "f", "x");
  fixtures::WriteFile(other / "f", "x");
  InterruptRequested() = true;
  const Result<bool> same = Compare(one, other);
  InterruptRequested() = false;
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().code, Code::kInterrupted);
}

}  // namespace
}  // namespace moepack
