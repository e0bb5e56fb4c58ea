#include "manifest/registry/server/run_program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "tests/manifest/registry/server/helper_scripts.h"

namespace moepack::registry {
namespace {

ProgramLimits Quick() { return {std::chrono::milliseconds(200), 64u << 10}; }

class RunProgramTest : public testing::Test {
 protected:
  // No started process is left, as a zombie or otherwise.
  void TearDown() override {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }
  HelperScripts scripts_;
};

TEST_F(RunProgramTest, PassesArgumentsInputAndBothOutputs) {
  scripts_.Add("echoes", "read line; echo \"$# $1 [$line]\"; echo wrong >&2; exit 3");
  const auto run = RunProgram({"echoes", "a b; $(c)"}, "first\nsecond");
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->status, 3);
  EXPECT_EQ(run->output, "1 a b; $(c) [first]\n");
  EXPECT_EQ(run->errors, "wrong\n");
}

TEST_F(RunProgramTest, AProgramMayLeaveItsInputUnread) {
  scripts_.Add("deaf", "exec <&-; echo done");
  for (int i = 0; i < 20; ++i) {
    const auto run = RunProgram({"deaf"}, std::string(4096, 'x'));
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_EQ(run->output, "done\n");
  }
}

TEST_F(RunProgramTest, AProgramInheritsNoOpenFiles) {
  const int leaked = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GE(leaked, 3);
  scripts_.Add("lists", Cat("[ -e /proc/self/fd/", leaked, " ] && echo leaked; echo listed"));
  const auto run = RunProgram({"lists"}, "");
  close(leaked);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->output, "listed\n");
}

TEST_F(RunProgramTest, AMissingProgramIsNamed) {
  const auto run = RunProgram({"docker-credential-nowhere"}, "");
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, Code::kNotFound);
  EXPECT_EQ(run.error().message,
            "docker-credential-nowhere: expected in PATH, found nowhere that it may be run");
}

TEST_F(RunProgramTest, AProgramThatIsNotExecutableIsNamed) {
  scripts_.Add("docker-credential-closed", "echo");
  chmod(scripts_.Path("docker-credential-closed").c_str(), 0600);
  const auto run = RunProgram({"docker-credential-closed"}, "");
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, Code::kNotFound);
  EXPECT_THAT(run.error().message, testing::HasSubstr("found nowhere that it may be run"));
}

TEST_F(RunProgramTest, ASlowProgramIsKilledWithItsChildren) {
  scripts_.Add("slow", Cat("sleep 1000 & echo $! >", scripts_.Path("child"), "; wait"));
  const auto run = RunProgram({"slow"}, "", Quick());
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, Code::kUnavailable);
  EXPECT_EQ(run.error().message, "slow: expected an end within 0.2 s, found none");
  const auto child = ParseUint(Split(scripts_.Read("child"), '\n')[0]);
  if (!child) return;  // killed before it started one
  // The kernel ends it in due time; without the signal this would wait for 1000 s.
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, *child, 0));
  if (handle < 0) return;  // it has ended, and init has reaped it
  pollfd end = {handle, POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, -1), 1);
  close(handle);
}

TEST_F(RunProgramTest, WaitsForAProgramThatClosesItsOutput) {
  scripts_.Add("quiet", "exec >&- 2>&-; exit 7");
  const auto run = RunProgram({"quiet"}, "");
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->status, 7);
}

TEST_F(RunProgramTest, DoesNotWaitForAGrandchildThatKeepsTheOutput) {
  scripts_.Add("leaves",
               Cat("sleep 1000 & echo $! >", scripts_.Path("child"), "; echo answer; exit 0"));
  const auto run = RunProgram({"leaves"}, "");
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->output, "answer\n");
  const auto child = ParseUint(Split(scripts_.Read("child"), '\n')[0]);
  ASSERT_TRUE(child);
  kill(static_cast<pid_t>(*child), SIGKILL);
}

TEST_F(RunProgramTest, AProgramThatPrintsTooMuchIsKilled) {
  scripts_.Add("floods", "yes");
  const auto run = RunProgram({"floods"}, "");
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, Code::kCorrupt);
  EXPECT_EQ(run.error().message, "floods: expected at most 65536 bytes of output, found more");
}

TEST_F(RunProgramTest, KeepsTheBeginningOfItsErrors) {
  scripts_.Add("complains", "head -c 300000 /dev/zero | tr '\\0' x >&2; echo done");
  const auto run = RunProgram({"complains"}, "");
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->errors, std::string(4096, 'x'));
  EXPECT_EQ(run->output, "done\n");
}

TEST_F(RunProgramTest, ReportsTheSignalThatEndedTheProgram) {
  scripts_.Add("dies", "kill -TERM $$");
  const auto run = RunProgram({"dies"}, "");
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->status, 128 + SIGTERM);
}

TEST_F(RunProgramTest, AnInterruptStopsIt) {
  scripts_.Add("slow", "sleep 1000");
  InterruptRequested() = true;
  const auto run = RunProgram({"slow"}, "");
  InterruptRequested() = false;
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, Code::kInterrupted);
}

}  // namespace
}  // namespace moepack::registry
