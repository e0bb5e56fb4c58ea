#include "libshard/plan/expectation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "libshard/plan/plan.h"
#include "tests/libshard/model/model_for_test.h"
#include "tests/libshard/strategies/planted.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kLayers = 6;

PlanExpectation Expected(const std::string& partition, const Planted& planted = {}) {
  ModelForTest model;
  for (uint32_t layer = 0; layer < planted.layers; ++layer)
    model.Layer({2 * layer, planted.experts, 2, 10, false});
  PlanOptions options;
  options.groups = 3;
  options.partition = partition;
  options.scores = std::make_shared<const ExpertScores>(planted.Make());
  return *MakePlan(model.Build(), options)->expectation;
}

TEST(Expectation, IsMeasuredOnSessionsThatWereHeldOut) {
  const PlanExpectation expected = Expected("session");
  EXPECT_EQ(expected.scheme, "session");
  EXPECT_EQ(expected.format, "test");
  EXPECT_EQ(expected.sessions, 48u);
  EXPECT_EQ(expected.held_out, 12u);
  EXPECT_EQ(expected.tokens, 60000u);
  EXPECT_THAT(expected.buckets, ElementsAre(std::pair("kind0", 20u), std::pair("kind1", 20u),
                                            std::pair("kind2", 20u)));
  EXPECT_EQ(expected.overall.sessions, 12u);
  ASSERT_EQ(expected.groups.size(), 3u);
  for (const CaptureSummary& group : expected.groups) EXPECT_EQ(group.sessions, 4u);
  EXPECT_LE(expected.overall.p5, expected.overall.p25);
  EXPECT_LE(expected.overall.p25, expected.overall.mean + 0.05);
}

TEST(Expectation, SessionPlansCaptureMostOfWhatSessionsUse) {
  const PlanExpectation session = Expected("session");
  EXPECT_GE(session.overall.mean, session.oracle.mean - 0.02);
  EXPECT_GE(session.overall.mean, session.same.mean + 0.2);
  EXPECT_GE(session.overall.mean, session.contiguous.mean + 0.2);
  const PlanExpectation same = Expected("same");
  EXPECT_EQ(same.overall, same.same);
  EXPECT_EQ(same.oracle, session.oracle);
  const PlanExpectation contiguous = Expected("contiguous");
  EXPECT_EQ(contiguous.overall, contiguous.contiguous);
}

TEST(Expectation, IsMeasuredOnTheTrainingSessionsIfNoneAreHeldOut) {
  const PlanExpectation expected = Expected("same", {.sessions = 3});
  EXPECT_EQ(expected.held_out, 0u);
  EXPECT_EQ(expected.overall.sessions, 3u);
  EXPECT_EQ(ExpectationToJson(expected)["expected"]["on"],
            "the sessions that the plan was made from");
}

TEST(Expectation, ConcentrationIsTheShareOfTheBestQuarterOfExperts) {
  ModelForTest model;
  model.Layer({5, 8, 2, 10, false});
  PlanOptions options;
  options.groups = 2;
  options.held_out = 0;
  options.scores =
      std::make_shared<const ExpertScores>(ScoresOf({{5, 8, 2}}, {{40, 20, 10, 10, 5, 5, 5, 5}}));
  const PlanExpectation expected = *MakePlan(model.Build(), options)->expectation;
  EXPECT_THAT(expected.concentration, ElementsAre(LayerConcentration{5, 0.6}));
  EXPECT_EQ(expected.overall.mean, 0.8);
  EXPECT_EQ(expected.same.mean, 0.8);
}

class ExpectationJson : public testing::Test {
 protected:
  ExpectationJson() {
    for (uint32_t layer = 0; layer < kLayers; ++layer) layers_[2 * layer] = 24;
    expected_.pinned[4] = {3, 7};
    document_ = ExpectationToJson(expected_);
  }
  Result<PlanExpectation> Read() const {
    return ExpectationFromJson("plan.json: expectation", document_, 3, layers_);
  }
  std::string ErrorOfReading() const {
    const auto read = Read();
    if (read) return "";
    EXPECT_EQ(read.error().code, Code::kCorrupt);
    return read.error().message;
  }

  PlanExpectation expected_ = Expected("session");
  LayerCounts layers_;
  Json document_;
};

TEST_F(ExpectationJson, ReadsBackWhatItWrote) {
  ASSERT_EQ(ErrorOfReading(), "");
  EXPECT_EQ(Read().value(), expected_);
}

// distribution.json drops unknown numeric keys, because those are layers.
TEST_F(ExpectationJson, HasNoNumericKeys) {
  const std::string text = document_.dump();
  for (const char digit : std::string("0123456789"))
    EXPECT_THAT(text, testing::Not(HasSubstr(std::string("{\"") + digit)));
}

TEST_F(ExpectationJson, NamesWhatIsWrong) {
  const Json good = document_;
  const auto broken = [&](const char* pointer, const Json& value) {
    document_ = good;
    document_[Json::json_pointer(pointer)] = value;
    return ErrorOfReading();
  };
  EXPECT_EQ(broken("/scheme", "a b"),
            "plan.json: expectation: scheme: expected 1 to 64 of [A-Za-z0-9._-], found \"a b\"");
  EXPECT_EQ(broken("/calibration/score", "mass"),
            "plan.json: expectation: calibration: score: expected count, gate or reap, found "
            "\"mass\"");
  EXPECT_EQ(
      broken("/calibration/concentration", Json::array({0.5})),
      "plan.json: expectation: calibration: concentration: expected 6 numbers, one per layer, "
      "found 1");
  EXPECT_THAT(broken("/calibration/concentration/2", 1.5),
              HasSubstr("expected numbers from 0 to 1"));
  EXPECT_EQ(broken("/calibration/pinned/0/layer", 3u),
            "plan.json: expectation: calibration: pinned: layer: expected a layer with experts, "
            "found 3");
  EXPECT_THAT(broken("/calibration/pinned/0/experts", "24"),
              HasSubstr("expected numbers from 0 to 23"));
  EXPECT_EQ(broken("/expected/mean", 2),
            "plan.json: expectation: expected: mean: expected a number from 0 to 1, found 2");
  EXPECT_EQ(broken("/expected/groups", Json::array()),
            "plan.json: expectation: expected: groups: expected 3, found 0");
  EXPECT_EQ(broken("/expected/groups/1", 7),
            "plan.json: expectation: expected: group 1: expected an object, found 7");
  EXPECT_THAT(broken("/expected/oracle", nullptr),
              HasSubstr("expected: oracle: expected an object, found"));
  EXPECT_THAT(broken("/calibration/buckets/0", "code"), HasSubstr("bucket 0: expected an object"));
  EXPECT_THAT(broken("/calibration/format", std::string(300, 'x')),
              HasSubstr("format: expected at most 256 bytes"));
}

TEST(Expectation, NamesTheTextsOfAllSessions) {
  ModelForTest model;
  for (uint32_t layer = 0; layer < kLayers; ++layer) model.Layer({2 * layer, 24, 2, 10, false});
  ExpertScores scores = Planted{.sessions = 6}.Make();
  for (size_t i = 0; i < scores.sessions.size(); ++i)
    scores.sessions[i].tokens_digest = Cat("0123456789abcde", 9 - i);
  PlanOptions options;
  options.groups = 2;
  options.scores = std::make_shared<const ExpertScores>(scores);
  const PlanExpectation expected = *MakePlan(model.Build(), options)->expectation;
  ASSERT_EQ(expected.texts.size(), 6u);
  EXPECT_EQ(expected.texts.front(), "0123456789abcde4");
  EXPECT_EQ(expected.texts.back(), "0123456789abcde9");
  const Json document = ExpectationToJson(expected);
  EXPECT_THAT(document["calibration"]["texts"].get<std::string>(),
              testing::StartsWith("0123456789abcde4 0123456789abcde5 "));
  LayerCounts layers;
  for (uint32_t layer = 0; layer < kLayers; ++layer) layers[2 * layer] = 24;
  EXPECT_EQ(ExpectationFromJson("x", document, 2, layers).value(), expected);
  EXPECT_FALSE(ExpectationToJson(Expected("session"))["calibration"].contains("texts"))
      << "statistics that do not name their texts";
}

}  // namespace
}  // namespace moepack
