// From statistics to a useful split: profile, plan, build, eval, on texts that the plan was not
// made from.
#include <gtest/gtest.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

constexpr const char* kTexts = MOEPACK_SOURCE_DIR "/fixtures/texts/";

class PlannedSplit : public testing::Test {
 protected:
  void SetUp() override {
    const ToolRun profile = workspace_.Moepack("profile fixtures/tiny-moe --text " +
                                               Text("calibration.jsonl") + " -o s.json");
    ASSERT_EQ(profile.status, 0) << profile.err;
  }

  static std::string Text(const std::string& name) {
    return "'" + std::string(kTexts) + name + "'";
  }

  // The mean divergence from the whole model, with every held-out session on the node that captures
  // most of its gate mass.
  double DamageOf(const std::string& name, const std::string& plan_options) {
    const std::string plan = name + ".json";
    const ToolRun planned = workspace_.Moepack("plan fixtures/tiny-moe --groups 3 --eligible 8 " +
                                               plan_options + " -o " + plan);
    EXPECT_EQ(planned.status, 0) << planned.err;
    const ToolRun built =
        workspace_.Moepack("build fixtures/tiny-moe --plan " + plan + " -o " + name);
    EXPECT_EQ(built.status, 0) << built.err;
    const auto eval = workspace_.Json("eval " + name + " --against fixtures/tiny-moe --text " +
                                      Text("held-out.jsonl") + " --generate 0 --json");
    return eval["best"]["total"]["kld"]["mean"].get<double>();
  }

  Workspace workspace_;
};

// Selection alone, without refit, reduces the damage of three groups of 8 of 16 to at most three
// quarters of that of the contiguous split.
TEST_F(PlannedSplit, CostsAtMostThreeQuartersOfAContiguousOneOfTheSameSize) {
  const double contiguous = DamageOf("contiguous", "--partition contiguous");
  const double session = DamageOf("session", "--statistics s.json --partition session");
  EXPECT_GT(contiguous, 0.5) << "the contiguous partition does too little damage to compare";
  EXPECT_LE(session, 0.75 * contiguous);
  RecordProperty("contiguous", std::to_string(contiguous));
  RecordProperty("session", std::to_string(session));
}

}  // namespace
}  // namespace moepack::cli
