#include "manifest/registry/transfer/free_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

TEST(FreeSpace, FindsTheMountOfAPathThatDoesNotExistYet) {
  EXPECT_EQ(MountOf("/"), "/");
  EXPECT_EQ(MountOf("/proc/self/nothing/here"), "/proc");
}

TEST(FreeSpace, SaysHowMuchIsNeededAndFreeAndWhere) {
  const Error error = NotEnoughSpace("/proc/out", 212'400'000'000, 180'100'000'000, 35'000'000'000);
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_EQ(error.message,
            "/proc/out: free space: expected 212 GB, found 180 GB on /proc; 35.0 GB are already "
            "there");
  EXPECT_THAT(error.hint, HasSubstr("free some space and run the command again"));
  EXPECT_EQ(NotEnoughSpace("/proc", 2000, 1000, 0).message,
            "/proc: free space: expected 2.00 kB, found 1.00 kB on /proc");
}

TEST(FreeSpace, ComparesWithTheDisk) {
  const fixtures::TempDir dir;
  EXPECT_TRUE(CheckFreeSpace(dir / "new", 1, 0));
  const Status refused = CheckFreeSpace(dir / "new", uint64_t{1} << 62, 0);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("free space: expected 4.61 EB, found "));
}

}  // namespace
}  // namespace moepack::registry
