// Two pulls into one output on a file system that grants every lock, as some network file systems
// do.
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "tests/manifest/registry/layout_sample.h"

namespace {

bool every_lock_is_granted = false;

// Between a process's check of a name and its use, another process gets a turn.
void WaitABit() {
  if (every_lock_is_granted) usleep(static_cast<useconds_t>(random() % 1000));
}

}  // namespace

// Replaces the function of the C library.
extern "C" int flock(int file, int operation) noexcept {
  return every_lock_is_granted ? 0 : static_cast<int>(syscall(SYS_flock, file, operation));
}
extern "C" int unlinkat(int directory, const char* name, int flags) noexcept {
  WaitABit();
  return static_cast<int>(syscall(SYS_unlinkat, directory, name, flags));
}
extern "C" int mkdirat(int directory, const char* name, mode_t mode) noexcept {
  WaitABit();
  return static_cast<int>(syscall(SYS_mkdirat, directory, name, mode));
}
extern "C" int renameat(int from, const char* name, int to, const char* new_name) noexcept {
  WaitABit();
  return static_cast<int>(syscall(SYS_renameat, from, name, to, new_name));
}

namespace moepack::registry {
namespace {

class PullWithoutLocksTest : public LayoutSample {
 protected:
  void SetUp() override { PublishOne(); }
  // Starts the pull a moment later.
  pid_t StartPull(unsigned microseconds, unsigned seed) {
    const pid_t child = fork();
    if (child != 0) return child;
    every_lock_is_granted = true;
    srandom(seed);
    usleep(microseconds);
    _exit(PullGroups({1}, Ref()) ? 0 : 1);
  }
  static bool Succeeded(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
};

TEST_F(PullWithoutLocksTest, FilesOfASuccessfulPullExist) {
  constexpr unsigned kRounds = 100;
  ASSERT_TRUE(PullGroups({1}, Ref(), "alone"));
  const auto expected = tiny::Tree(dir_ / "alone");
  std::mt19937 random(18);
  unsigned succeeded = 0;
  for (unsigned round = 0; round < kRounds; ++round) {
    const pid_t one = StartPull(0, 2 * round);
    const pid_t other = StartPull(static_cast<unsigned>(random() % 10'000), 2 * round + 1);
    const bool first = Succeeded(one), second = Succeeded(other);
    succeeded += first || second ? 1U : 0U;
    // One that failed may have failed just before it could report success.
    if (!first && !second && !std::filesystem::exists(dir_ / "out")) continue;
    EXPECT_TRUE(tiny::Tree(dir_ / "out") == expected) << "round " << round;
    std::filesystem::remove_all(dir_ / "out");
    std::filesystem::remove_all(dir_ / "out.partial");
  }
  EXPECT_GT(succeeded, kRounds / 10);
}

}  // namespace
}  // namespace moepack::registry
