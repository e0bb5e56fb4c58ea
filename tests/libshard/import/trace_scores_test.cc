#include "tests/libshard/import/imported.h"

namespace moepack {
namespace {

TEST(TraceScores, GatesAndSessionsAreThoseOfTheProfile) {
  ImportOptions options = ForTiny();
  options.basis = ScoreBasis::kGateMass;
  const ExpertScores trace = Imported("route-trace.csv", options);
  const ExpertScores profile = Imported("profile.json", options);
  ASSERT_EQ(trace.sessions.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(trace.sessions[i].name, profile.sessions[i].name);
    EXPECT_EQ(trace.sessions[i].bucket, profile.sessions[i].bucket);
    EXPECT_EQ(trace.sessions[i].tokens, profile.sessions[i].tokens);
    EXPECT_EQ(trace.sessions[i].scores, profile.sessions[i].scores);
  }
  EXPECT_EQ(trace.co_selection, profile.co_selection);
}

TEST(TraceScores, ABasisThatTheTraceLacksIsRefused) {
  ImportOptions options = ForTiny();
  options.basis = ScoreBasis::kCount;
  EXPECT_EQ(ImportError(FixtureBytes("route-trace.csv"), options).message,
            "in: scores: expected count, found only gate");
}

TEST(TraceScores, ATraceOfAnotherModelIsRefused) {
  ImportOptions options = ForTiny();
  options.model.pop_back();
  EXPECT_EQ(ImportError(FixtureBytes("route-trace.csv"), options).code, Code::kMismatch);
}

}  // namespace
}  // namespace moepack
