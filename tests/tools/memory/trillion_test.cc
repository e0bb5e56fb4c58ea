// A sparse checkpoint of a trillion parameters: list, plan, and one task of many.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>

#include "fixtures/generator.h"
#include "fixtures/sanitizers.h"
#include "tests/tools/memory/peak_memory.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A task of 512 encodes two billion weights and writes a gigabyte, which is left to `make soak`.
std::string NumberOfTasks() { return std::getenv("MOEPACK_SOAK") == nullptr ? "8192" : "512"; }

struct Measured {
  int status = -1;
  double seconds = 0;
  long megabytes = 0;  // peak resident memory
};

// Leaves the file `log` in `directory`.
Measured Measure(const fs::path& directory, const std::vector<std::string>& arguments) {
  std::vector<char*> argv = {const_cast<char*>(MOEPACK_BINARY)};
  for (const std::string& word : arguments) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::fflush(stdout);  // otherwise the child prints it again
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    const bool ready = chdir(directory.c_str()) == 0 && freopen("log", "w", stdout) != nullptr;
    if (!ready) _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage = {};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, elapsed.count(), usage.ru_maxrss / 1024};
}

// Resident in any of them; 135 were seen at most (docs/scale-out.md).
constexpr long kMostMegabytes = 256;

void Report(const std::string& what, const Measured& measured) {
  std::printf("%s: %.2f s, %ld MiB resident at most\n", what.c_str(), measured.seconds,
              measured.megabytes);
  EXPECT_EQ(measured.status, 0) << what;
  if (!fixtures::kSanitizedMemory) {
    EXPECT_LE(measured.megabytes, kMostMegabytes) << what;
  }
}

TEST(Trillion, ParametersAreListedPlannedAndSplit) {
  const fixtures::TempDir dir;
  fixtures::Options sizes{.layers = 61, .experts = 384, .top_k = 8, .hidden = 7168, .ff = 2048};
  sizes.shards = 61;
  sizes.sparse = true;
  if (!fixtures::MakeCheckpoint("qwen3-moe", dir / "source", sizes))
    GTEST_SKIP() << "nothing listed: this file system has no sparse files of 35 GB";
  Report("list-tensors --summary", Measure(dir.path(), {"list-tensors", "source", "--summary"}));
  EXPECT_THAT(ReadFile(dir / "log"), HasSubstr("1T"));
  Report("plan", Measure(dir.path(), {"plan", "source", "--groups", "32", "-o", "plan.json"}));
  const std::string tasks = NumberOfTasks();
  Report("one task of " + tasks,
         Measure(dir.path(), {"build", "source", "--plan", "plan.json", "--quantize", "Q4_K_M",
                              "--task", "77/" + tasks, "-o", "out"}));
  std::printf("%s", ReadFile(dir / "log").c_str());
  EXPECT_THAT(ReadFile(dir / "log"), HasSubstr("task 77 of " + tasks + " reads "));
}

}  // namespace
}  // namespace moepack::cli
