#include "runtime-shim/experiment/figures.h"

#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

SessionFigures TwoNodes() {
  SessionFigures session;
  session.tokens = 4;
  session.nodes = {{0.5, 0.25, 0.75, 0.6}, {0.25, 0.5, 0.25, 0.9}};
  session.raced = 0;
  return session;
}

TEST(Under, PicksTheNodeOfTheRule) {
  SessionFigures session = TwoNodes();
  EXPECT_EQ(Under(Choice::kCapture, session).capture, 0.9);
  EXPECT_EQ(Under(Choice::kRace, session).kld, 0.5);
  EXPECT_EQ(Under(Choice::kBest, session).kld, 0.25);
  const NodeFigures any = Under(Choice::kAny, session);
  EXPECT_EQ(any.kld, 0.375);
  EXPECT_EQ(any.loss, 0.375);
  EXPECT_EQ(any.top1, 0.5);
  EXPECT_EQ(any.capture, 0.75);
  session.raced = 1;
  EXPECT_EQ(Under(Choice::kRace, session).kld, 0.25);
}

// Two tokens are scored; four groups, of which the row has the last two.
SessionMeasure MeasureOfFour() {
  SessionMeasure measure;
  measure.name = "a";
  measure.bucket = "code";
  measure.full = {-1, -2};
  for (int group = 0; group < 4; ++group) {
    GroupMeasure& one = measure.groups.emplace_back();
    one.log_probability = {-1.0 - group, -2.0 - group};
    one.from_full = {{0.1 * group, 0.3 * group}, 1};
    one.teacher = one.on_policy = {{0.5f, 0.25f * static_cast<float>(group)}};
  }
  return measure;
}

EvalInput InputOfFour() {
  EvalInput input;
  input.full = Participant{};
  input.groups.resize(4);
  input.routers[0] = {};
  return input;
}

TEST(FiguresOf, TakeTheGroupsOfARow) {
  const SessionFigures figures = FiguresOf(InputOfFour(), MeasureOfFour(), {2, 2}, 32);
  EXPECT_EQ(figures.name, "a");
  EXPECT_EQ(figures.bucket, "code");
  EXPECT_EQ(figures.tokens, 2u);
  ASSERT_EQ(figures.nodes.size(), 2u);
  EXPECT_NEAR(figures.nodes[0].kld, 0.4, 1e-12);
  EXPECT_NEAR(figures.nodes[1].kld, 0.6, 1e-12);
  EXPECT_NEAR(figures.nodes[1].loss, 3, 1e-12);
  EXPECT_EQ(figures.nodes[0].top1, 0.5);
  EXPECT_NEAR(figures.nodes[1].capture, 0.625, 1e-6);
  EXPECT_EQ(figures.raced, 0u);
}

TEST(FiguresOf, CompareWithTheReferenceIfThereIsOne) {
  EvalInput input = InputOfFour();
  input.reference = Participant{};
  SessionMeasure measure = MeasureOfFour();
  measure.reference = {-0.5, -1};
  measure.quantization = {{0.01, 0.03}, 2};
  for (GroupMeasure& group : measure.groups) group.from_reference = {{1, 2}, 0};
  const SessionFigures whole = FiguresOf(input, measure, {0, 0}, 32);
  ASSERT_EQ(whole.nodes.size(), 1u);
  EXPECT_NEAR(whole.nodes[0].kld, 0.02, 1e-12);
  EXPECT_NEAR(whole.nodes[0].loss, 0.75, 1e-12);
  EXPECT_EQ(whole.nodes[0].top1, 1);
  const SessionFigures split = FiguresOf(input, measure, {1, 1}, 32);
  ASSERT_EQ(split.nodes.size(), 1u);
  EXPECT_NEAR(split.nodes[0].kld, 1.5, 1e-12);
  EXPECT_NEAR(split.nodes[0].loss, 1.75, 1e-12);
}

}  // namespace
}  // namespace moepack::runtime
