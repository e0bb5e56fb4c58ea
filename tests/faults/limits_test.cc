// System limits and unwritable directories: a message with the place and a status, never a signal,
// and nothing half-done.
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/faults/support/writing_commands.h"
#include "tests/tools/child_process.h"

namespace faults {
namespace {

using moepack::cli::ChildEnd;
using moepack::cli::ChildProcess;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr unsigned kNobody = 65534;
constexpr int kCannotMount = 125;

std::string LimitName(const testing::TestParamInfo<WritingCommand>& info) {
  return info.param.name;
}

class Limits : public testing::TestWithParam<WritingCommand> {
 protected:
  void SetUp() override {
    ASSERT_EQ(SharedInputs().ProblemOf(GetParam()), "");
    workspace_ = SharedInputs().Copy();
  }
  // What is wrong with the end of a run in which we made nothing fail.
  void Judge(const ChildEnd& end, const std::string& moment) {
    FaultRun run;
    run.status = end.status;
    run.signal = end.signal;
    run.err = end.err;
    EXPECT_EQ(ProblemOfRun(GetParam(), workspace_->path(), run), "") << moment << "\n" << end.err;
  }
  ChildEnd RunLimited(int resource, rlim_t limit) {
    ChildProcess child(workspace_->path(), GetParam().arguments, [&] {
      const rlimit both = {limit, limit};
      setrlimit(static_cast<__rlimit_resource>(resource), &both);
    });
    return child.Wait();
  }
  void RunUnder(int resource, rlim_t limit, const std::string& moment) {
    workspace_ = SharedInputs().Copy();
    Judge(RunLimited(resource, limit), moment + " " + std::to_string(limit));
  }
  // Runs as a user who owns nothing, like root on a file server that squashes it.
  ChildEnd RunAsNobody() {
    ChildProcess child(workspace_->path(), GetParam().arguments, [] {
      const bool changed =
          setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0;
      if (!changed) _exit(126);
    });
    return child.Wait();
  }

  std::unique_ptr<fixtures::TempDir> workspace_;
};

TEST_P(Limits, RunsWithFewOpenFilesOrSaysThatTheyAreTooFew) {
  for (const rlim_t files : {8u, 10u, 12u, 16u, 24u, 40u})
    RunUnder(RLIMIT_NOFILE, files, "open files");
}

TEST_P(Limits, AFileSizeLimitEndsInAnError) {
  // A lower limit would truncate the message too, which goes to a file here.
  for (const rlim_t bytes : {3'000u, 20'000u, 60'000u}) RunUnder(RLIMIT_FSIZE, bytes, "file size");
}

// The program and its libraries are mapped before main, and take part of it; then the threads.
TEST_P(Limits, AnAddressSpaceThatIsTooSmallIsEnoughOrNamedInAnError) {
  if (!CanFault()) GTEST_SKIP() << "a sanitizer maps terabytes";
  for (const rlim_t mebibytes : {32u, 64u, 160u}) {
    workspace_ = SharedInputs().Copy();
    const ChildEnd end = RunLimited(RLIMIT_AS, mebibytes << 20);
    if (end.status == 127) continue;  // the loader itself had too little
    Judge(end, "MiB of address space " + std::to_string(mebibytes));
    if (end.status == 1) {
      EXPECT_THAT(end.err, HasSubstr("out of memory")) << mebibytes;
    }
  }
}

TEST_P(Limits, AFileSystemThatIsReadOnlyIsNamed) {
  const Tree before = ReadTree(workspace_->path());
  ChildProcess child(workspace_->path(), GetParam().arguments, [&] {
    const char* const place = workspace_->path().c_str();
    const auto mounts = [](const char* from, const char* to, unsigned long flags) {
      return mount(from, to, nullptr, flags, nullptr) == 0;
    };
    const bool mounted = unshare(CLONE_NEWNS) == 0 && mounts("none", "/", MS_REC | MS_PRIVATE) &&
                         mounts(place, place, MS_BIND) &&
                         mounts("none", place, MS_BIND | MS_REMOUNT | MS_RDONLY);
    if (!mounted || chdir(place) != 0) _exit(kCannotMount);
  });
  const ChildEnd end = child.Wait();
  if (end.status == kCannotMount) GTEST_SKIP() << "nothing may be mounted here";
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(end.status, 5) << end.out << end.err;
  EXPECT_THAT(end.err, HasSubstr("Read-only file system"));
  EXPECT_EQ(ReadTree(workspace_->path()), before);
}

TEST_P(Limits, APlaceThatMayNotBeWrittenIsNamedAndNothingChanges) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  // Others may read it, but only root may write it.
  fs::permissions(workspace_->path(), fs::perms::owner_all | fs::perms::group_read |
                                          fs::perms::group_exec | fs::perms::others_read |
                                          fs::perms::others_exec);
  for (const auto& entry : fs::recursive_directory_iterator(workspace_->path())) {
    const fs::perms all = fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read |
                          fs::perms::others_read;
    const fs::perms enter = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
    fs::permissions(entry, entry.is_directory() ? all | enter : all);
  }
  const Tree before = ReadTree(workspace_->path());
  const ChildEnd end = RunAsNobody();
  if (end.status == 126 || end.status == 127) GTEST_SKIP() << "nobody may not run the program";
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(end.status, 5) << end.out << end.err;
  EXPECT_THAT(end.err, HasSubstr("ermission"));
  EXPECT_EQ(ReadTree(workspace_->path()), before);
}

INSTANTIATE_TEST_SUITE_P(Commands, Limits, testing::ValuesIn(WritingCommands()), LimitName);

}  // namespace
}  // namespace faults
