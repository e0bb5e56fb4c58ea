// Resident memory with a hundred thousand tensors: the design requires less than 100 MB.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "fixtures/generator.h"
#include "fixtures/sanitizers.h"
#include "fixtures/temp_dir.h"
#include "tests/tools/memory/peak_memory.h"

namespace moepack::cli {
namespace {

constexpr uint64_t kTensors = 100'000;

class Memory : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string dir = Directory().path() / "source";
    ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir, fixtures::OptionsForTensors(kTensors)));
  }
  void SetUp() override {
    if (fixtures::kSanitizedMemory) GTEST_SKIP() << "sanitizers take memory of their own";
  }

  static std::string Source() { return Directory().path() / "source"; }
  static std::string Out(const std::string& name) { return Directory().path() / name; }

 private:
  static const fixtures::TempDir& Directory() {
    static const fixtures::TempDir dir;
    return dir;
  }
};

TEST_F(Memory, ListingAHundredThousandTensorsTakesLessThan100MB) {
  EXPECT_LT(PeakMemory({"list-tensors", Source()}), 100 * kMegabyte);
}

TEST_F(Memory, AsADocumentToo) {
  EXPECT_LT(PeakMemory({"list-tensors", Source(), "--json"}), 100 * kMegabyte);
}

TEST_F(Memory, ShardingThemTakesLessThan100MB) {
  std::filesystem::remove_all(Out("out"));
  EXPECT_LT(PeakMemory({"shard-experts", Source(), "--groups", "4", "-o", Out("out")}),
            100 * kMegabyte);
}

TEST_F(Memory, SoDoesADryRun) {
  EXPECT_LT(PeakMemory({"shard-experts", Source(), "--groups", "4", "-o", Out("dry"), "--dry-run"}),
            100 * kMegabyte);
}

}  // namespace
}  // namespace moepack::cli
