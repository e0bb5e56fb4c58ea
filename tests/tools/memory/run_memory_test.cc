// --memory of profile and eval bounds what they take beyond the model and the texts; the model need
// not fit into memory where it is mapped.
#include <gtest/gtest.h>

#include "fixtures/generator.h"
#include "fixtures/sanitizers.h"
#include "tests/tools/child_process.h"
#include "tests/tools/memory/peak_memory.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

// Statistics, figures, stacks and what threads decode weights into.
constexpr long kBesides = 4 * kMegabyte;

class RunMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (fixtures::kSanitizedMemory) GTEST_SKIP() << "sanitizers take memory of their own";
  }

  // What the command takes beyond one that runs hardly anything at once is within every bound, and
  // large bounds are made use of.
  void ExpectBound(std::vector<std::string> command, const std::string& least_context) {
    command.insert(command.end(), {"--threads", "2", "--context"});
    const auto with = [&](const std::string& context, const std::string& memory) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {context, "--memory", memory});
      return PeakMemory(words);
    };
    const long base = with(least_context, "2M");
    long last = 0;
    for (const long megabytes : {8L, 96L}) {
      last = with("1024", std::to_string(megabytes) + "M");
      EXPECT_LT(last - base, megabytes * kMegabyte + kBesides) << megabytes << " MB";
    }
    EXPECT_GT(last - base, 20 * kMegabyte);
  }

  std::string In(const std::string& name) const { return (workspace_ / name).string(); }
  Workspace workspace_;
};

TEST_F(RunMemory, OfProfileStaysInItsBound) {
  ExpectBound(
      {"profile", In("fixtures/tiny-moe"), "--text", In("fixtures/texts/calibration.jsonl")}, "16");
}

TEST_F(RunMemory, OfEvalStaysInItsBound) {
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o out").status, 0);
  ExpectBound({"eval", In("out"), "--generate", "0", "--text", In("fixtures/texts/held-out.jsonl")},
              "16");
}

// Its experts, 100 MB in tensors of their own, are used where they are mapped.
TEST_F(RunMemory, OfProfileMayBeLessThanTheExpertsOfACheckpoint) {
  ASSERT_TRUE(fixtures::MakeCheckpoint(
      "qwen3-moe", workspace_ / "model",
      {.layers = 2, .experts = 32, .hidden = 512, .ff = 512, .vocabulary = 512}));
  WriteAll(workspace_ / "ids.jsonl", R"({"tokens": [3, 17, 5, 5, 39, 0, 21, 8, 30, 2, 11]})");
  ChildProcess child(workspace_.path(),
                     {"profile", "model", "--text", "ids.jsonl", "--memory", "16M", "--threads",
                      "1", "--jobs", "1", "-o", "s.json"},
                     [] {
                       const rlimit limit = {60 << 20, 60 << 20};
                       setrlimit(RLIMIT_DATA, &limit);
                     });
  const ChildEnd end = child.Wait();
  EXPECT_EQ(end.status, 0) << end.err;
}

}  // namespace
}  // namespace moepack::cli
