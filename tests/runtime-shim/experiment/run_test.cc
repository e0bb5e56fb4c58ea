#include "runtime-shim/experiment/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime-shim/experiment/document.h"
#include "tests/runtime-shim/routed_session.h"

namespace moepack::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RoutedSession::LogitsAfter Biased(double zero) {
  return [zero](uint32_t) {
    return std::vector<float>{static_cast<float>(std::log(zero)),
                              static_cast<float>(std::log(1 - zero))};
  };
}

Selection FirstTwo(uint32_t) { return {{0, 1}, {0.75f, 0.25f}}; }

Participant Biased(const char* label, double zero, ExpertIds eligible, const EvalOptions& options) {
  return {label, {{0, std::move(eligible)}}, [zero, &options](RoutingObserver* observer) {
            return Result<std::unique_ptr<Session>>(
                std::make_unique<RoutedSession>(Biased(zero), FirstTwo, options.context, observer));
          }};
}

// Two rows of one node each, masks of the same weights.
class Experiment : public ::testing::Test {
 protected:
  Experiment() {
    state_.rows = {{"a", "", 2, 10, {}}, {"b", "", 2, 10, {}}};
    pass_.name = "the model";
    pass_.parts = {{0, {0, 1}}, {1, {1, 1}}};
    pass_.open = [this] {
      ++opened_;
      auto pass = std::make_unique<OpenedPass>();
      pass->options.context = 16;
      pass->options.generate = 0;
      Routing router;
      router.expert_count = 4;
      router.top_k = 2;
      pass->input.routers = {{0, router}};
      pass->input.full = Biased("unmasked", 0.5, {0, 1, 2, 3}, pass->options);
      pass->input.groups = {Biased("a 0", 0.75, {0, 1}, pass->options),
                            Biased("b 0", 0.25, {2, 3}, pass->options)};
      return Result<std::unique_ptr<OpenedPass>>(std::move(pass));
    };
    for (const uint32_t token : {0u, 1u, 0u, 1u})
      sessions_.push_back({Cat("s", sessions_.size()), "", std::vector<uint32_t>(5, token)});
    rule_.looks = {2, 4};
  }
  Status Run() { return RunExperiment({&pass_, 1}, sessions_, rule_, calls_, state_); }

  ExperimentState state_;
  ExperimentPass pass_;
  std::vector<TokenSession> sessions_;
  ExperimentRule rule_;
  ExperimentCalls calls_;
  int opened_ = 0;
};

TEST_F(Experiment, MeasuresEveryRowOnTheSameSessions) {
  ASSERT_TRUE(Run());
  EXPECT_TRUE(state_.complete);
  EXPECT_FALSE(state_.stopped);
  EXPECT_EQ(state_.looks_made, 2u);
  EXPECT_EQ(opened_, 2);  // once per look
  for (const ExperimentRow& row : state_.rows) ASSERT_EQ(row.sessions.size(), 4u);
  const SessionFigures& zeros = state_.rows[0].sessions[0];
  EXPECT_EQ(zeros.name, "s0");
  EXPECT_EQ(zeros.tokens, 4u);
  EXPECT_NEAR(zeros.nodes[0].loss, std::log(0.5) - std::log(0.75), 1e-6);
  EXPECT_EQ(zeros.nodes[0].capture, 1);
  EXPECT_NEAR(state_.rows[1].sessions[0].nodes[0].loss, std::log(0.5) - std::log(0.25), 1e-6);
  EXPECT_EQ(state_.rows[1].sessions[0].nodes[0].capture, 0);
}

// The divergence is the same for all sessions, so its error is 0 at the first look.
TEST_F(Experiment, StopsAtTheFirstLookWithASmallError) {
  rule_.until_error = 0.01;
  ASSERT_TRUE(Run());
  EXPECT_TRUE(state_.stopped);
  EXPECT_TRUE(state_.complete);
  EXPECT_EQ(state_.looks_made, 1u);
  for (const ExperimentRow& row : state_.rows) EXPECT_EQ(row.sessions.size(), 2u);
}

TEST_F(Experiment, ResumesWhereItWasInterrupted) {
  ExperimentState whole = state_;
  ASSERT_TRUE(RunExperiment({&pass_, 1}, sessions_, rule_, calls_, whole));
  int saves = 0;
  calls_.save = [&](const ExperimentState&) -> Status {
    if (++saves == 3) return Error{Code::kInterrupted, "interrupted"};
    return Ok();
  };
  const Status stopped = Run();
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().message, "the model: interrupted");
  EXPECT_EQ(state_.rows[0].sessions.size(), 3u);
  EXPECT_FALSE(state_.complete);
  calls_.save = nullptr;
  opened_ = 0;
  state_.looks_made = 0;  // as when it was read back
  ASSERT_TRUE(Run());
  EXPECT_EQ(opened_, 1);
  const Json setup = Json::object();
  EXPECT_EQ(ExperimentToJson(setup, rule_, state_), ExperimentToJson(setup, rule_, whole));
}

TEST_F(Experiment, UsesOnlyTheSessionsOfItsLook) {
  rule_.until_error = 0.01;
  // As if a run had been interrupted in the second look, whose sessions differ a lot.
  ASSERT_TRUE(RunExperiment({&pass_, 1}, sessions_, {{2, 4}, 0}, calls_, state_));
  for (ExperimentRow& row : state_.rows) row.sessions[2].nodes[0].kld = 100;
  state_.looks_made = 0;
  state_.complete = false;
  ASSERT_TRUE(Run());
  EXPECT_TRUE(state_.stopped);
  EXPECT_EQ(state_.looks_made, 1u);
}

TEST_F(Experiment, ErrorsNameTheWeights) {
  pass_.open = []() -> Result<std::unique_ptr<OpenedPass>> {
    return Error{Code::kIo, "m.gguf: read: refused"};
  };
  const Status ran = Run();
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message, "the model: m.gguf: read: refused");
}

}  // namespace
}  // namespace moepack::runtime
