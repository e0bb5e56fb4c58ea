// Commands under a limit on their address space: they work, or report that memory ran out, and end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fixtures/sanitizers.h"
#include "tests/tools/child_process.h"

namespace moepack::cli {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr rlim_t kLimitMegabyte = 1u << 20;

class OutOfMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (fixtures::kSanitizedMemory) GTEST_SKIP() << "sanitizers need all of the address space";
    while (RunUnder(least_, {"--version"}).status != 0) ++least_;
  }

  // With at most `megabytes` of address space. A run that hangs is ended by SIGALRM.
  ChildEnd RunUnder(rlim_t megabytes, const std::vector<std::string>& arguments) const {
    ChildProcess child(workspace_.path(), arguments, [&] {
      const rlimit limit{megabytes * kLimitMegabyte, megabytes * kLimitMegabyte};
      setrlimit(RLIMIT_AS, &limit);
      alarm(120);
    });
    return child.Wait();
  }

  // Under limits from the smallest with which it starts, in growing steps.
  void ExpectStatuses(const std::vector<std::string>& arguments, const std::string& output) {
    size_t failed = 0, done = 0;
    rlim_t step = 1;
    for (rlim_t more = 1; done < 2 && more < 4000; more += step, step += step / 4 + 1) {
      fs::remove_all(workspace_ / output);
      fs::remove_all(workspace_ / (output + ".partial"));
      const ChildEnd end = RunUnder(least_ + more, arguments);
      ASSERT_EQ(end.signal, 0) << arguments[0] << " under " << least_ + more << " MB: " << end.err;
      ASSERT_THAT(end.status, AnyOf(0, 1)) << arguments[0] << ": " << end.err;
      end.status == 0 ? ++done : ++failed;
      if (end.status == 1) {
        EXPECT_THAT(end.err, HasSubstr("ut of memory"));
        // build verifies its output, and memory may run out there. Nothing else looks finished.
        if (!fs::exists(workspace_ / output)) continue;
        EXPECT_EQ(arguments[0], "build");
        EXPECT_EQ(workspace_.Moepack("verify " + output).status, 0);
      }
    }
    EXPECT_GT(done, 0u);
    EXPECT_GT(failed, 0u) << "no run failed, so the limits had no effect";
  }

  Workspace workspace_;
  rlim_t least_ = 8;
};

TEST_F(OutOfMemory, ShardExpertsEndsWithStatusOneOrWorks) {
  ExpectStatuses({"shard-experts", "fixtures/tiny-moe", "--groups", "3", "--jobs", "8", "-o", "o"},
                 "o");
}

TEST_F(OutOfMemory, BuildWithTypesEndsWithStatusOneOrWorks) {
  ExpectStatuses({"build", "fixtures/tiny-moe", "--groups", "2", "--quantize", "Q4_K_M", "--jobs",
                  "4", "--memory", "256M", "-o", "o"},
                 "o");
}

}  // namespace
}  // namespace moepack::cli
