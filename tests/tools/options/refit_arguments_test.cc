#include "tools/options/refit_arguments.h"

#include <gtest/gtest.h>

#include "libshard/stats/session_digest.h"

namespace moepack::cli {
namespace {

std::string Refusal(const runtime::RefitOptions& options) {
  const Status checked = CheckRefitSteps(options);
  return checked ? "" : checked.error().message;
}

TEST(RefitArguments, TheUsualStepsUseAllOptions) {
  runtime::RefitOptions options;
  EXPECT_EQ(Refusal(options), "");
  options.updates = 5;
  options.lambda = 0.1;
  options.pool = 5;
  options.sweeps = 5;
  EXPECT_EQ(Refusal(options), "");
}

TEST(RefitArguments, OptionsOfStepsThatAreNotTakenAreRefused) {
  runtime::RefitOptions options;
  options.steps = {"ridge"};
  EXPECT_EQ(Refusal(options), "");
  options.updates = 5;
  EXPECT_EQ(Refusal(options), "--updates has no effect: --steps has no tune");
  options.updates = runtime::RefitOptions().updates;
  options.pool = 5;
  EXPECT_EQ(Refusal(options), "--pool has no effect: --steps has no refill");
  options.pool = 0;
  options.steps = {"tune"};
  options.sweeps = 5;
  EXPECT_EQ(Refusal(options), "--sweeps has no effect: --steps has no ridge");
  options.lambda = 0.1;
  EXPECT_EQ(Refusal(options), "--lambda has no effect: --steps has no ridge and no refill");
}

TEST(RefitArguments, AStepThatDoesNotExistIsRefused) {
  runtime::RefitOptions options;
  options.steps = {"ridge", "bake"};
  EXPECT_NE(Refusal(options), "");
}

TEST(RefitArguments, ARecordNamesTheSessionsThatWereTaken) {
  const std::vector<TokenSession> sessions = {{"a:1", "x", {1, 2, 3, 4}, "a.jsonl"},
                                              {"a:2", "x", {5, 6, 7, 8}, "a.jsonl"},
                                              {"b", "x", {9, 10, 11}, "b.txt"}};
  // A last token on its own is in no window.
  const auto whole = CalibrationOf(sessions, {4, 4, 2});
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_EQ(whole[0].tokens, 8u);
  EXPECT_EQ(whole[0].sessions, (std::vector<std::string>{SessionDigest(sessions[0].tokens),
                                                         SessionDigest(sessions[1].tokens)}));
  EXPECT_FALSE(whole[0].taken);
  EXPECT_FALSE(whole[1].taken);
  const auto part = CalibrationOf(sessions, {0, 2, 0});
  EXPECT_EQ(part[0].tokens, 8u);
  EXPECT_EQ(part[0].sha256, whole[0].sha256);
  EXPECT_EQ(part[0].sessions, std::vector<std::string>{SessionDigest(sessions[1].tokens)});
  EXPECT_EQ(part[0].taken, (TakenText{2, 1, 2}));
  EXPECT_EQ(part[1].taken, (TakenText{0, 0, 1}));
}

}  // namespace
}  // namespace moepack::cli
