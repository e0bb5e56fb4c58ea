#include "manifest/overlay/decide_overlay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/temp_dir.h"
#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

using testing::HasSubstr;

// For the sample's layers, 1 and 2, with six experts each.
NamedScores Scores(const std::string& name, std::vector<float> scores) {
  ExpertScores made;
  made.basis = ScoreBasis::kGateMass;
  made.layers = {{1, 6, 2}, {2, 6, 2}};
  made.sessions.push_back({"s", "", 10, std::move(scores), {}});
  return {name, made};
}

const NamedScores kScores = Scores("s.json", {0, 9, 0, 0, 0, 5, 1, 2, 3, 4, 5, 6});

Error ErrorOf(const OverlayRequest& request, const Plan& plan = sample::MakePlan()) {
  const auto decided = DecideOverlay("dist", plan, request);
  EXPECT_FALSE(decided);
  return decided ? Error{Code::kIo, "no error"} : decided.error();
}

TEST(DecideOverlay, TakesAsManyBestExpertsPerLayerAsTheParentHas) {
  OverlayRequest request;
  request.scores = {kScores};
  const auto decided = DecideOverlay("dist", sample::MakePlan(), request);
  ASSERT_TRUE(decided) << decided.error().message;
  EXPECT_EQ(decided->overlay.experts_by_layer, (LayerExperts{{1, {1}}, {2, {5}}}));
  EXPECT_EQ(decided->overlay.version, "generalists-2");
  EXPECT_EQ(decided->overlay.parent, "generalists-1");
}

TEST(DecideOverlay, AddsUpSeveralFilesAndAcceptsASize) {
  OverlayRequest request;
  request.scores = {kScores, Scores("t.json", {0, 0, 0, 6, 0, 0, 9, 0, 0, 0, 0, 0})};
  request.size = 2;
  request.version = "mine";
  const auto decided = DecideOverlay("dist", sample::MakePlan(), request);
  ASSERT_TRUE(decided) << decided.error().message;
  EXPECT_EQ(decided->overlay.experts_by_layer, (LayerExperts{{1, {1, 3}}, {2, {0, 5}}}));
  EXPECT_EQ(decided->overlay.version, "mine");
}

// Every group holds expert 1 of layer 1, the best one there, and expert 2 as well.
Plan PlanWithCommonExperts() {
  Plan plan = sample::MakePlan();
  plan.uniform = false;
  plan.groups[0].fill[1] = {2};
  plan.groups[1].fill[1] = {1};
  plan.groups[2].fill[1] = {1, 2};
  plan.groups[0].fill[2] = plan.groups[1].fill[2] = plan.groups[2].fill[2] = {5};
  return plan;
}

TEST(DecideOverlay, SkipsExpertsThatEveryGroupHolds) {
  OverlayRequest request;
  request.scores = {kScores};
  const auto decided = DecideOverlay("dist", PlanWithCommonExperts(), request);
  ASSERT_TRUE(decided) << decided.error().message;
  EXPECT_EQ(decided->overlay.experts_by_layer, (LayerExperts{{1, {5}}, {2, {4}}}));
  EXPECT_TRUE(decided->notes.empty());
}

TEST(DecideOverlay, TakesFewerExpertsIfThereAreNoMoreAndSaysSo) {
  OverlayRequest request;
  request.scores = {kScores};
  request.size = 5;
  const auto decided = DecideOverlay("dist", PlanWithCommonExperts(), request);
  ASSERT_TRUE(decided) << decided.error().message;
  EXPECT_EQ(decided->overlay.experts_by_layer,
            (LayerExperts{{1, {0, 3, 4, 5}}, {2, {0, 1, 2, 3, 4}}}));
  EXPECT_EQ(decided->notes,
            (std::vector<std::string>{"layer 1: the overlay holds 4 and not 5 experts, because "
                                      "every group holds the other 2"}));
}

TEST(DecideOverlay, RefusesAnOverlayForGroupsThatHoldTheSameExperts) {
  Plan plan = sample::MakePlan();
  plan.uniform = false;
  for (GroupPlan& group : plan.groups)
    group.fill = {{1, {0, 1, 2, 3, 4, 5}}, {2, {0, 1, 2, 3, 4, 5}}};
  OverlayRequest request;
  request.scores = {kScores};
  const Error error = ErrorOf(request, plan);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.message,
            "dist: overlay: expected experts that not every group holds, found none in any layer");
}

TEST(DecideOverlay, CountsUpTheNameOfTheParent) {
  OverlayRequest request;
  request.scores = {kScores};
  Plan plan = sample::MakePlan();
  plan.overlays.insert(plan.overlays.begin(), plan.overlays[0]);
  plan.overlays[0].version = "generalists-2";
  EXPECT_EQ(DecideOverlay("dist", plan, request)->overlay.version, "generalists-3");
  plan.overlays[1].version = "nightly";
  EXPECT_EQ(DecideOverlay("dist", plan, request)->overlay.version, "nightly-2");
  request.parent = "generalists-2";
  EXPECT_EQ(DecideOverlay("dist", plan, request)->overlay.version, "generalists-3");
  plan.overlays.clear();
  request.parent = "";
  request.size = 1;
  const auto first = DecideOverlay("dist", plan, request);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->overlay.version, "1");
  EXPECT_EQ(first->overlay.parent, "");
}

TEST(DecideOverlay, RefusesExistingVersionsAndMissingFiles) {
  const fixtures::TempDir dir;
  OverlayRequest request;
  request.file = (dir / "o.json").string();
  fixtures::WriteFile(request.file, R"({"version": "generalists-1", "layers": {"*": "5"}})");
  const Error taken = ErrorOf(request);
  EXPECT_EQ(taken.code, Code::kInvalidArgument);
  EXPECT_EQ(taken.message,
            "dist: overlay \"generalists-1\": expected a new version, found one that is there");
  EXPECT_THAT(taken.hint, HasSubstr("--version"));
  request.parent = "v0";
  EXPECT_EQ(ErrorOf(request).message,
            "dist: overlay \"v0\": expected in the manifest, found only \"generalists-1\"");
  request.parent = "";
  request.version = "../up";
  EXPECT_EQ(ErrorOf(request).message,
            "--version: expected 1 to 64 of [A-Za-z0-9._-], the first not a dot, found \"../up\"");
  request.version = "none";
  EXPECT_EQ(ErrorOf(request).message,
            "--version: expected a name other than none and auto, which are words of --overlay, "
            "found \"none\"");
}

// An older moepack may have made it.
TEST(DecideOverlay, TakesAParentWithAReservedName) {
  Plan plan = sample::MakePlan();
  plan.overlays[0].version = "none";
  OverlayRequest request;
  request.scores = {kScores};
  const auto decided = DecideOverlay("dist", plan, request);
  ASSERT_TRUE(decided) << decided.error().message;
  EXPECT_EQ(decided->overlay.parent, "none");
  EXPECT_EQ(decided->overlay.version, "none-2");
}

TEST(DecideOverlay, RefusesScoresOfAnotherModelOrKindAndImpossibleSizes) {
  OverlayRequest request;
  request.scores = {Scores("s.json", {0, 9, 0, 0, 0, 5, 1, 2, 3, 4, 5})};
  request.scores[0].scores.layers[1].expert_count = 5;
  EXPECT_EQ(ErrorOf(request).code, Code::kMismatch);
  EXPECT_EQ(ErrorOf(request).message, "s.json: layer 2: experts: expected 6, found 5");
  request.scores = {kScores, kScores};
  request.scores[1].name = "t.json";
  request.scores[1].scores.basis = ScoreBasis::kCount;
  EXPECT_EQ(ErrorOf(request).message, "t.json: score: expected gate as in s.json, found count");
  request.scores = {kScores};
  request.size = 7;
  EXPECT_EQ(ErrorOf(request).message,
            "--size: expected at most 6, the experts of layer 1, found 7");
  request.size.reset();
  Plan plan = sample::MakePlan();
  plan.overlays.clear();
  const Error unknown = ErrorOf(request, plan);
  EXPECT_EQ(unknown.message,
            "dist: overlay: expected one whose number of experts the new one takes over, found "
            "none");
  EXPECT_THAT(unknown.hint, HasSubstr("--size"));
  request.scores[0].scores.sessions.clear();
  EXPECT_EQ(ErrorOf(request).message, "s.json: sessions: expected at least one, found none");
}

}  // namespace
}  // namespace moepack::manifest
