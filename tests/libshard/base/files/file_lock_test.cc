#include "libshard/base/files/file_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// Where there are no locks: tests/faults/locks_test.cc.
TEST(FileLock, IsTakenOnceAndFreeAgainWhenItsDescriptorIsClosed) {
  const fixtures::TempDir dir;
  const auto directory = InsideDirectory::Open(dir.path());
  ASSERT_TRUE(directory);
  const auto other = directory->OpenFile("lock", O_RDWR | O_CREAT);
  ASSERT_TRUE(other);
  {
    const auto file = directory->OpenFile("lock", O_RDWR);
    ASSERT_TRUE(file);
    EXPECT_EQ(TakeLock(*directory, "lock", *file).value(), FileLock::kTaken);
    EXPECT_EQ(TakeLock(*directory, "lock", *other).value(), FileLock::kHeld);
  }
  EXPECT_EQ(TakeLock(*directory, "lock", *other).value(), FileLock::kTaken);
}

TEST(FileLock, AFileThatWasRemovedOrReplacedIsNotTakenForOneWithoutLocks) {
  const fixtures::TempDir dir;
  const auto directory = InsideDirectory::Open(dir.path());
  ASSERT_TRUE(directory);
  const auto file = directory->OpenFile("lock", O_RDWR | O_CREAT);
  ASSERT_TRUE(file);
  ASSERT_TRUE(directory->Remove("lock"));
  const auto gone = TakeLock(*directory, "lock", *file);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::kNotFound);
  ASSERT_TRUE(directory->OpenFile("lock", O_RDWR | O_CREAT));
  EXPECT_EQ(TakeLock(*directory, "lock", *file).value(), FileLock::kTaken);
}

TEST(ProcessName, SaysWhetherTheProcessHasEnded) {
  const std::string name = ProcessName();
  EXPECT_THAT(name, testing::EndsWith(Cat("-", getpid())));
  EXPECT_EQ(name.find('/'), name.npos);
  EXPECT_FALSE(IsEndedProcess(name));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(0);
  const std::string prefix = name.substr(0, name.rfind('-') + 1);
  EXPECT_FALSE(IsEndedProcess(prefix + Cat(child))) << "nobody has waited for it";
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(IsEndedProcess(prefix + Cat(child)));
  const std::string others[] = {"",           "other-1-1",  name.substr(1),
                                prefix + "0", prefix + "x", prefix + "99999999999"};
  for (const std::string& other : others) {
    EXPECT_FALSE(IsEndedProcess(other)) << other;
  }
}

}  // namespace
}  // namespace moepack
