#include "runtime-shim/eval/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime-shim/eval/summary.h"
#include "tests/runtime-shim/eval/evaluation_sample.h"

namespace moepack::runtime {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr double kNear = 1e-6;

TEST_F(Evaluation, ScoresTheSameTokensWithEveryRun) {
  const auto measures = Run();
  ASSERT_EQ(measures.size(), 2u);
  ASSERT_THAT(measures[0].full, SizeIs(4));
  EXPECT_NEAR(measures[0].full[3], std::log(0.5), kNear);
  ASSERT_THAT(measures[0].groups[0].log_probability, SizeIs(4));
  EXPECT_NEAR(measures[0].groups[0].log_probability[0], std::log(0.75), kNear);
  EXPECT_NEAR(measures[0].groups[1].log_probability[0], std::log(0.25), kNear);
  // Windows of 8 and 2 tokens: 7 + 1 scored.
  EXPECT_THAT(measures[1].full, SizeIs(8));
  EXPECT_TRUE(measures[0].reference.empty());
}

// Shows logits two rows at a time.
class SlicingSession : public RoutedSession {
 public:
  using RoutedSession::RoutedSession;
  Status FeedTogether(std::span<const Part> parts, LogitsOf which, const SeeLogits& see) override {
    if (which == LogitsOf::kLast) return RoutedSession::FeedTogether(parts, which, see);
    return RoutedSession::FeedTogether(parts, which, [&](const LogitsSlice& whole) -> Status {
      const size_t most = size_t{2} * whole.width;
      for (size_t first = 0; first < whole.parts.front().size(); first += most) {
        LogitsSlice slice{static_cast<uint32_t>(first / whole.width), whole.width, {}};
        for (const std::span<const float> part : whole.parts)
          slice.parts.push_back(part.subspan(first, std::min(most, part.size() - first)));
        SHARD_CHECK(see(slice));
      }
      return Ok();
    });
  }
};

TEST_F(Evaluation, DoesNotDependOnSlicesAndChunks) {
  input_.reference = Player("reference", 0.625, {0, 1, 2, 3}, options_);
  const auto whole = Run();
  input_.full->open = [this](RoutingObserver* observer) {
    return Result<std::unique_ptr<Session>>(
        std::make_unique<SlicingSession>(Coin(0.5), Halves, options_.context, observer));
  };
  for (const bool half : {false, true}) {
    options_.score_half = half;
    options_.chunk = 3;
    sessions_ = {{"ones", "", {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}};
    const auto one = Run();
    options_.chunk = 8;
    const auto other = Run();
    EXPECT_EQ(one[0].full, other[0].full);
    EXPECT_EQ(one[0].reference, other[0].reference);
    EXPECT_EQ(one[0].groups[1].log_probability, other[0].groups[1].log_probability);
    EXPECT_EQ(one[0].groups[1].from_full.divergence, other[0].groups[1].from_full.divergence);
    EXPECT_EQ(one[0].groups[1].from_reference.divergence,
              other[0].groups[1].from_reference.divergence);
    if (!half) {
      EXPECT_EQ(one[0].full, whole[1].full);
    }
  }
}

TEST_F(Evaluation, DivergenceIsFromTheUnmaskedRun) {
  const auto measures = Run();
  const Comparison& comparison = measures[0].groups[0].from_full;
  ASSERT_THAT(comparison.divergence, SizeIs(4));
  EXPECT_NEAR(comparison.divergence[0], 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25),
              kNear);
  EXPECT_EQ(comparison.agreements, 4u);
  EXPECT_EQ(measures[0].groups[1].from_full.agreements, 0u);
  EXPECT_TRUE(measures[0].groups[0].from_reference.divergence.empty());
}

TEST_F(Evaluation, AReferenceSeparatesTheCostOfQuantization) {
  input_.reference = Player("reference", 0.625, {0, 1, 2, 3}, options_);
  const auto measures = Run();
  const auto kl = [](double p, double q) {
    return p * std::log(p / q) + (1 - p) * std::log((1 - p) / (1 - q));
  };
  EXPECT_NEAR(measures[0].quantization.divergence[0], kl(0.625, 0.5), kNear);
  EXPECT_NEAR(measures[0].groups[0].from_reference.divergence[2], kl(0.625, 0.75), kNear);
  EXPECT_NEAR(measures[0].groups[0].from_full.divergence[2], kl(0.5, 0.75), kNear);
  EXPECT_NEAR(measures[0].reference[0], std::log(0.625), kNear);
}

TEST_F(Evaluation, TheReferenceIsTheTeacherWithoutAnUnmaskedRun) {
  input_.reference = *std::move(input_.full);
  input_.full.reset();
  const auto measures = Run();
  EXPECT_THAT(measures[0].groups[0].teacher[0], Each(1.0f));
  EXPECT_TRUE(measures[0].groups[0].from_full.divergence.empty());
  const EvalSummary summary = SummarizeEvaluation(input_, measures, 4);
  EXPECT_FALSE(summary.best_by_capture->split);
  EXPECT_TRUE(summary.best_by_capture->total);
  // So gates on the split are compared with the reference too.
  const auto failed = FailedGates(summary, std::vector{*ParseGate("kld<0")});
  ASSERT_TRUE(failed) << failed.error().message;
  EXPECT_EQ(FailedGates(summary, std::vector{*ParseGate("total_kld<0")})->size(), failed->size());
  EXPECT_THAT(*failed, SizeIs(1));
}

TEST_F(Evaluation, AGateOnTheSplitNeedsABaseline) {
  EvalSummary summary = SummarizeEvaluation(input_, Run(), 4);
  for (EvalRow& row : summary.groups) row.split.reset();
  summary.best_by_capture->split.reset();
  const auto failed = FailedGates(summary, std::vector{*ParseGate("kld<1")});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kInvalidArgument);
  EXPECT_THAT(failed.error().message, HasSubstr("--gate kld<1: kld needs a distribution"));
  EXPECT_THAT(failed.error().message, HasSubstr("or --against SRC"));
}

TEST_F(Evaluation, CaptureIsMeasuredWithTheTeacherAndOnPolicy) {
  const auto measures = Run();
  // The first position of a window is left out.
  EXPECT_THAT(measures[0].groups[0].teacher[0], SizeIs(4));
  EXPECT_THAT(measures[0].groups[0].teacher[0], Each(1.0f));
  EXPECT_THAT(measures[0].groups[1].teacher[0], Each(0.0f));
  EXPECT_THAT(measures[1].groups[1].teacher[0], SizeIs(8));
  EXPECT_THAT(measures[1].groups[1].teacher[0], Each(1.0f));
  EXPECT_THAT(measures[1].groups[1].on_policy[0], SizeIs(8));
}

TEST_F(Evaluation, EveryRunGeneratesGreedily) {
  const auto measures = Run();
  ASSERT_TRUE(measures[0].full_loop);
  EXPECT_EQ(measures[0].full_loop->tokens, 4u);
  EXPECT_EQ(measures[0].groups[1].loop->period, 1u);
}

TEST_F(Evaluation, AnEndTokenEndsAContinuation) {
  input_.is_end = [](uint32_t id) { return id == 1; };
  const auto measures = Run();
  EXPECT_EQ(measures[0].groups[0].loop->tokens, 4u);
  EXPECT_EQ(measures[0].groups[1].loop->tokens, 0u);
}

TEST_F(Evaluation, RunsNoLoopTestIfNothingIsGenerated) {
  options_.generate = 0;
  const auto measures = Run();
  EXPECT_FALSE(measures[0].full_loop);
  EXPECT_FALSE(SummarizeEvaluation(input_, measures, 4).best_by_capture->loops);
}

TEST_F(Evaluation, CanScoreHalfOfEachWindow) {
  options_.score_half = true;
  sessions_[0].tokens.push_back(0);
  const auto measures = Run();
  EXPECT_THAT(measures[0].full, SizeIs(1));  // positions 5 to 7 of a window of 8
  EXPECT_THAT(measures[1].full, SizeIs(3));
  EXPECT_EQ(SummarizeEvaluation(input_, measures, 4).full->likelihood.tokens, 4u);
}

TEST_F(Evaluation, ASessionWithNothingToScoreIsAnError) {
  const auto error = [&] {
    const auto measures = Evaluate(input_, sessions_, options_);
    return measures ? Error{Code::kInterrupted, "was scored"} : measures.error();
  };
  options_.score_half = true;
  EXPECT_EQ(error().code, Code::kInvalidArgument);
  EXPECT_EQ(error().message,
            "session \"zeros\": tokens: expected more than 5 to score any, found 5");
  options_.context = 2;
  options_.generate = 0;
  EXPECT_EQ(
      error().message,
      "session \"zeros\": context: expected more than 2 tokens to score the second half, found 2");
  options_ = {};
  sessions_[0].tokens = {0};
  EXPECT_EQ(error().message,
            "session \"zeros\": tokens: expected more than 1 to score any, found 1");
}

TEST_F(Evaluation, ProgressEndsWithAllTokensOfAllRuns) {
  uint64_t last = 0, total = 0;
  options_.progress = [&](uint64_t done, uint64_t of) {
    EXPECT_GE(done, last);
    last = done;
    total = of;
  };
  Run();
  // Each run processes all tokens, and for the loop test 4 of each session and the 4 that follow.
  EXPECT_EQ(total, 3 * (15 + 2 * 4 + 2 * 4));
  EXPECT_EQ(last, total);
  // A second pass repeats the unmasked run, but not its loop test.
  last = 0;
  options_.groups_at_once = 1;
  options_.windows = 2;
  Run();
  EXPECT_EQ(total, 4 * 15 + 3 * (2 * 4 + 2 * 4));
  EXPECT_EQ(last, total);
}

TEST_F(Evaluation, AnErrorNamesItsSession) {
  input_.groups[1].open = [](RoutingObserver* observer) {
    return Result<std::unique_ptr<Session>>(
        std::make_unique<RoutedSession>(Coin(0.5), Halves, 6, observer));
  };
  const auto measures = Evaluate(input_, sessions_, options_);
  ASSERT_FALSE(measures);
  EXPECT_EQ(measures.error().message, "session \"ones\": no room");
  options_.windows = 2;
  const auto several = Evaluate(input_, sessions_, options_);
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().message, "session \"zeros\" to \"ones\": no room");
}

TEST_F(Evaluation, TheBestGroupCapturesMost) {
  const EvalSummary summary = SummarizeEvaluation(input_, Run(), 4);
  ASSERT_TRUE(summary.best_by_capture);
  EXPECT_EQ(summary.sessions[0].by_capture, 0u);
  EXPECT_EQ(summary.sessions[1].by_capture, 1u);
  EXPECT_EQ(summary.sessions[1].race.winner, 1u);
  EXPECT_NEAR(summary.sessions[1].race.margin, std::log(3), kNear);
  EXPECT_EQ(summary.agreements, 2u);
  EXPECT_DOUBLE_EQ(summary.best_by_capture->capture, 1);
  EXPECT_DOUBLE_EQ(summary.best_by_capture->teacher[0].p5, 1);
  EXPECT_NEAR(summary.best_by_capture->likelihood.log_probability, std::log(0.75), kNear);
  EXPECT_NEAR(summary.best_by_capture->likelihood.perplexity, 1 / 0.75, kNear);
  EXPECT_NEAR(summary.best_by_capture->likelihood.perplexity_error, 0, kNear);
  EXPECT_NEAR(summary.best_by_capture->split->perplexity_ratio, 0.5 / 0.75, kNear);
}

TEST_F(Evaluation, TheRaceMayChooseAnotherGroupThanCapture) {
  auto measures = Run();
  std::swap(measures[0].groups[0].teacher, measures[0].groups[1].teacher);
  const EvalSummary summary = SummarizeEvaluation(input_, measures, 4);
  EXPECT_EQ(summary.sessions[0].by_capture, 1u);
  EXPECT_EQ(summary.sessions[0].race.winner, 0u);
  EXPECT_EQ(summary.agreements, 1u);
  EXPECT_NEAR(summary.raced->likelihood.log_probability, std::log(0.75), kNear);
  EXPECT_NEAR(summary.best_by_capture->likelihood.log_probability,
              (4 * std::log(0.25) + 8 * std::log(0.75)) / 12, kNear);
  EXPECT_NEAR(summary.raced->capture, 8.0 / 12, kNear);
}

TEST_F(Evaluation, NamesBothTheGroupThatCapturesMostAndTheOneThatDivergesLeast) {
  auto measures = Run();
  for (SessionMeasure& measure : measures) {
    for (double& divergence : measure.groups[1].from_full.divergence) divergence /= 2;
  }
  std::swap(measures[1].groups[0].teacher, measures[1].groups[1].teacher);
  const EvalSummary summary = SummarizeEvaluation(input_, measures, 4);
  for (const SessionChoice& session : summary.sessions) {
    EXPECT_EQ(session.by_capture, 0u);
    EXPECT_EQ(session.by_kld, 1u);
    EXPECT_NEAR(session.divergences[0], 2 * session.divergences[1], kNear);
  }
  EXPECT_EQ(summary.kld_agreements, 0u);
  EXPECT_EQ(summary.most_capture, 0u);
  EXPECT_EQ(summary.least_kld, 1u);
  EXPECT_EQ(summary.best_by_capture->label, "best by capture");
  EXPECT_EQ(summary.best_by_kld->label, "best by KLD");
  EXPECT_NEAR(summary.best_by_capture->split->mean, 2 * summary.best_by_kld->split->mean, kNear);
  EXPECT_GT(summary.best_by_capture->capture, summary.best_by_kld->capture);
}

TEST_F(Evaluation, MeasuresTheLowestDivergenceFromTheReferenceWithoutAnUnmaskedRun) {
  input_.reference = Player("reference", 0.3, {0, 1, 2, 3}, options_);
  input_.full.reset();
  const EvalSummary summary = SummarizeEvaluation(input_, Run(), 4);
  EXPECT_EQ(summary.least_kld, 1u);
  EXPECT_EQ(summary.sessions[0].by_kld, 1u);
  EXPECT_TRUE(summary.best_by_kld->total);
  EXPECT_FALSE(summary.best_by_kld->split);
}

TEST_F(Evaluation, MeasuresEveryGroupOnAllSessions) {
  const EvalSummary summary = SummarizeEvaluation(input_, Run(), 4);
  const EvalRow& group = summary.groups[0];
  EXPECT_EQ(group.likelihood.tokens, 12u);
  EXPECT_NEAR(group.likelihood.log_probability, (4 * std::log(0.75) + 8 * std::log(0.25)) / 12,
              kNear);
  EXPECT_NEAR(group.capture, 4.0 / 12, kNear);
  EXPECT_NEAR(group.split->top1, 1, kNear);
  EXPECT_EQ(summary.assignments[0].sessions, 1u);
  EXPECT_DOUBLE_EQ(summary.assignments[0].assigned, 1);
  EXPECT_DOUBLE_EQ(summary.assignments[0].others, 0);
  EXPECT_EQ(group.loops->looping, 2u);
  EXPECT_EQ(group.loops->rate(), 1);
}

TEST_F(Evaluation, ComputesQuantilesOverTokens) {
  auto measures = Run();
  for (SessionMeasure& measure : measures) measure.groups[0].from_full.divergence.clear();
  auto& divergence = measures[1].groups[0].from_full.divergence;
  for (int i = 0; i <= 1000; ++i) divergence.push_back(1000 - i);
  const Damage damage = *SummarizeEvaluation(input_, measures, 4).groups[0].split;
  EXPECT_DOUBLE_EQ(damage.mean, 500);
  EXPECT_DOUBLE_EQ(damage.median, 500);
  EXPECT_DOUBLE_EQ(damage.p90, 900);
  EXPECT_DOUBLE_EQ(damage.p99, 990);
  EXPECT_DOUBLE_EQ(damage.p999, 999);
  EXPECT_DOUBLE_EQ(damage.largest, 1000);
}

TEST_F(Evaluation, FailedGatesNameTheMetric) {
  const EvalSummary summary = SummarizeEvaluation(input_, Run(), 4);
  const auto failures = [&](const char* gate) {
    const auto failed = FailedGates(summary, std::vector{*ParseGate(gate)});
    EXPECT_TRUE(failed) << (failed ? "" : failed.error().message);
    return failed ? *failed : std::vector<std::string>{};
  };
  EXPECT_THAT(failures("capture>=0.99"), SizeIs(0));
  EXPECT_THAT(failures("kld<=0.2"), SizeIs(0));
  EXPECT_THAT(failures("ppl_ratio<=0.7"), SizeIs(0));
  EXPECT_THAT(failures("loops<=0"),
              ::testing::ElementsAre("best by capture: loops: expected <= 0, found 1"));
  EXPECT_THAT(failures("each.capture>0.5"),
              ::testing::ElementsAre("group 0: capture: expected > 0.5, found 0.333333"));
  EXPECT_THAT(failures("top1>1"), SizeIs(1));
}

TEST_F(Evaluation, AGateOnAnUnmeasuredMetricIsAnError) {
  const EvalSummary summary = SummarizeEvaluation(input_, Run(), 4);
  for (const char* gate : {"total_kld<1", "quant_kld<1", "each.total_ppl_ratio<2"}) {
    const auto failed = FailedGates(summary, std::vector{*ParseGate(gate)});
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().message, HasSubstr(" needs --against SRC"));
  }
}

TEST_F(Evaluation, AGateThatWillNotBeMeasuredIsRefusedBeforeTheRun) {
  const auto refusal = [&](const char* gate) {
    const Status checked = CheckMeasured(std::vector{*ParseGate(gate)}, input_, options_);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(refusal("kld<1"), "");
  EXPECT_EQ(refusal("loops<1"), "");
  EXPECT_EQ(refusal("total_kld<1"), "--gate total_kld<1: total_kld needs --against SRC");
  EXPECT_EQ(refusal("quant_kld<1"), "--gate quant_kld<1: quant_kld needs --against SRC");
  options_.generate = 0;
  EXPECT_EQ(refusal("loops<1"), "--gate loops<1: loops needs --generate above 0");
  input_.groups.clear();
  EXPECT_EQ(refusal("each.kld<1"), "--gate each.kld<1: kld needs the groups of a distribution");
  input_.reference = Player("reference", 0.625, {0, 1, 2, 3}, options_);
  EXPECT_EQ(refusal("quant_kld<1"), "");
  input_.full.reset();
  EXPECT_EQ(refusal("quant_kld<1"),
            "--gate quant_kld<1: quant_kld needs a model with all experts, and --against SRC");
}

TEST_F(Evaluation, MeasuresOnlyQuantizationWithoutGroups) {
  input_.groups.clear();
  input_.reference = Player("reference", 0.625, {0, 1, 2, 3}, options_);
  const EvalSummary summary = SummarizeEvaluation(input_, Run(), 4);
  EXPECT_FALSE(summary.best_by_capture);
  EXPECT_TRUE(summary.quantization);
  EXPECT_EQ(summary.reference->likelihood.tokens, 12u);
  EXPECT_FALSE(FailedGates(summary, std::vector{*ParseGate("kld<1")}));
  EXPECT_TRUE(FailedGates(summary, std::vector{*ParseGate("quant_kld<1")}));
}

}  // namespace
}  // namespace moepack::runtime
