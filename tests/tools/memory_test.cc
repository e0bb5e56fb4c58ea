// Resident memory with a hundred thousand tensors: the design requires less than 100 MB.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

constexpr long kMegabyte = 1'000'000 / 1024;  // ru_maxrss counts KiB
constexpr uint64_t kTensors = 100'000;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOEPACK_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MOEPACK_SANITIZED 1
#endif
#endif

class Memory : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string dir = Directory().path() / "source";
    ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir, fixtures::OptionsForTensors(kTensors)));
  }
  void SetUp() override {
#ifdef MOEPACK_SANITIZED
    GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  }

  // The peak resident memory of `moepack arguments...` in KiB.
  static long Peak(const std::vector<std::string>& arguments) {
    const ChildEnd end = Run(arguments);
    EXPECT_EQ(end.status, 0);
    return end.peak;
  }

  static std::string Source() { return Directory().path() / "source"; }
  static std::string Out(const std::string& name) { return Directory().path() / name; }

 private:
  struct ChildEnd {
    int status = -1;
    long peak = 0;
  };
  static ChildEnd Run(const std::vector<std::string>& arguments) {
    std::vector<char*> argv = {const_cast<char*>(MOEPACK_BINARY)};
    for (const std::string& word : arguments) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      if (!freopen("/dev/null", "w", stdout)) _exit(126);
      execv(argv[0], argv.data());
      _exit(127);
    }
    int status = 0;
    rusage usage = {};
    EXPECT_EQ(wait4(child, &status, 0, &usage), child);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, usage.ru_maxrss};
  }
  static const fixtures::TempDir& Directory() {
    static const fixtures::TempDir dir;
    return dir;
  }
};

TEST_F(Memory, ListingAHundredThousandTensorsTakesLessThan100MB) {
  EXPECT_LT(Peak({"list-tensors", Source()}), 100 * kMegabyte);
}

TEST_F(Memory, ListingThemAsJsonTakesLessThan100MB) {
  EXPECT_LT(Peak({"list-tensors", Source(), "--json"}), 100 * kMegabyte);
}

TEST_F(Memory, ShardingThemTakesLessThan100MB) {
  std::filesystem::remove_all(Out("out"));
  EXPECT_LT(Peak({"shard-experts", Source(), "--groups", "4", "-o", Out("out")}), 100 * kMegabyte);
}

TEST_F(Memory, ADryRunOfShardingTakesLessThan100MB) {
  EXPECT_LT(Peak({"shard-experts", Source(), "--groups", "4", "-o", Out("dry"), "--dry-run"}),
            100 * kMegabyte);
}

}  // namespace
}  // namespace moepack::cli
