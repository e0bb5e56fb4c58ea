#include "libshard/base/files/byte_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"

namespace moepack {
namespace {

bool Same(const std::string& one, const std::string& other) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "one", one);
  fixtures::WriteFile(dir / "other", other);
  return HaveSameBytes(InputFile::Open(dir / "one").value(), InputFile::Open(dir / "other").value())
      .value();
}

TEST(HaveSameBytes, ComparesEveryByteOfFilesOfOneSize) {
  EXPECT_TRUE(Same("", ""));
  EXPECT_FALSE(Same("", "x"));
  // As long as a piece that is read at once, a byte shorter and a byte longer.
  for (const size_t size : {kNearScanStep - 1, kNearScanStep, kNearScanStep + 1}) {
    const std::string bytes(size, 'x');
    EXPECT_TRUE(Same(bytes, bytes)) << size;
    EXPECT_FALSE(Same(bytes, bytes + "x")) << size;
    for (const size_t at : {size_t{0}, size / 2, size - 1}) {
      std::string other = bytes;
      other[at] = 'y';
      EXPECT_FALSE(Same(bytes, other)) << size << " at " << at;
    }
  }
}

TEST(HaveSameBytes, AFileThatWasCutIsAnErrorAndNoDifference) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "one", "0123");
  fixtures::WriteFile(dir / "other", "0123");
  const InputFile one = InputFile::Open(dir / "one").value();
  const InputFile other = InputFile::Open(dir / "other").value();
  fs::resize_file(dir / "other", 2);
  const Result<bool> same = HaveSameBytes(one, other);
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().code, Code::kCorrupt);
  EXPECT_THAT(same.error().message, testing::HasSubstr("other: read at offset 0: expected 4 bytes, "
                                                       "found 2"));
}

}  // namespace
}  // namespace moepack
