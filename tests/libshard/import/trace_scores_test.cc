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

TEST(TraceScores, CountsAreThoseOfTheProfile) {
  ImportOptions options = ForTiny();
  options.basis = ScoreBasis::kCount;
  const ExpertScores trace = Imported("route-trace.csv", options);
  EXPECT_EQ(trace.basis, ScoreBasis::kCount);
  EXPECT_EQ(SumOfScores(trace), ProfiledCounts());
}

TEST(TraceScores, ABasisThatTheTraceLacksIsRefused) {
  ImportOptions options = ForTiny();
  options.basis = ScoreBasis::kWeightedNorm;
  const Error norms = ImportError(FixtureBytes("route-trace.csv"), options);
  EXPECT_EQ(norms.code, Code::kInvalidArgument);
  EXPECT_EQ(norms.message, "in: scores: expected reap, found only count and gate");
  options.basis = ScoreBasis::kGateMass;
  options.model = {{0, 4, 2}, {1, 4, 2}};
  EXPECT_EQ(ImportError("0,0\n0,1\n1,0\n1,1\n0,1\n0,2\n1,0\n1,3\n", options).message,
            "in: scores: expected gate, found only count");
}

TEST(TraceScores, ATraceOfAnotherModelIsRefused) {
  ImportOptions options = ForTiny();
  options.model.pop_back();
  EXPECT_EQ(ImportError(FixtureBytes("route-trace.csv"), options).code, Code::kMismatch);
}

}  // namespace
}  // namespace moepack
