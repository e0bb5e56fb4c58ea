#include "libshard/import/route_trace.h"

#include <gmock/gmock.h>

#include "tests/libshard/import/trace_files.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;

class RouteTraces : public TraceFiles {};

constexpr std::string_view kWeighted =
    "# route_trace v1\n# model=m arch=a n_layer=1 n_expert=3 n_expert_used=2\n"
    "# turn=1 {\"session\":\"b\",\"bucket\":\"prose\"}\n"
    "turn,phase,step,layer,slot,expert,weight\n"
    "0,0,0,5,0,0,0.5\n0,0,0,5,1,1,0.5\n"
    "0,0,1,5,0,2,0.75\n0,0,1,5,1,1,0.25\n"
    "0,1,2,5,0,2,0.5\n0,1,2,5,1,0,0.5\n"
    "1,0,0,5,0,0,0.5\n1,0,0,5,1,1,0.5\n"
    "1,0,1,5,0,1,1\n";

TEST_F(RouteTraces, ScoresAreGatesBySession) {
  const ExpertScores scores = ScoresFromTrace(MustRead(kWeighted));
  EXPECT_EQ(scores.basis, ScoreBasis::kGateMass);
  EXPECT_EQ(scores.format, "route_trace v1");
  ASSERT_EQ(scores.sessions.size(), 2u);
  EXPECT_EQ(scores.sessions[0].name, "turn 0");
  EXPECT_EQ(scores.sessions[0].tokens, 2u) << "the first token is an attention sink";
  EXPECT_THAT(scores.sessions[0].scores, ElementsAre(0.5f, 0.25f, 1.25f));
  EXPECT_EQ(scores.sessions[1].name, "b");
  EXPECT_EQ(scores.sessions[1].bucket, "prose");
  EXPECT_THAT(scores.sessions[1].scores, ElementsAre(0, 1, 0));
  EXPECT_THAT(scores.co_selection, ElementsAre(ElementsAre(0, 1, 1)));
  EXPECT_TRUE(CheckExpertScores("t", scores));
}

TEST_F(RouteTraces, ScoresAreCountsWhereGatesAreUnknown) {
  const ExpertScores scores = ScoresFromTrace(MustRead("0,0\n0,1\n1,0\n1,1\n0,1\n1,0\n"));
  EXPECT_EQ(scores.basis, ScoreBasis::kCount);
  EXPECT_THAT(scores.sessions[0].scores, ElementsAre(0, 2, 1, 1));
  EXPECT_EQ(scores.warnings.size(), 2u);
}

TEST_F(RouteTraces, AreRecognizedByTheirFirstBytes) {
  for (const char* head :
       {"# route_trace v1\n", "layer,expert\n", "0,1\n", "-3,0,1,2\n",
        "turn,phase,step,layer,slot,expert\n", "{\"schema\": \"glm52-routing-trace-export/v2\""}) {
    EXPECT_TRUE(LooksLikeRouteTrace(head)) << head;
  }
  for (const char* head :
       {"", "{}", "GGUF", "expert_id,gate_mass\n", "3\n", ",1\n", "1,\n", "1.5,2\n", "\x1f\x8b"}) {
    EXPECT_FALSE(LooksLikeRouteTrace(head)) << head;
  }
}

TEST_F(RouteTraces, OtherFilesAreRefused) {
  EXPECT_EQ(Refusal("", Code::kCorrupt), "t: expected a trace of routing, found nothing");
  EXPECT_EQ(Refusal("GIF8", Code::kCorrupt), "t: expected a trace of routing, found \"GIF8\"");
  EXPECT_EQ(Refusal("GGUF", Code::kUnsupported), "t: expected a trace of routing, found imatrix");
  const auto packed = Read("\x1f\x8b\x08");
  ASSERT_FALSE(packed);
  EXPECT_EQ(packed.error().code, Code::kUnsupported);
  EXPECT_EQ(packed.error().message, (dir_ / "t").string() + ": expected a trace, found gzip");
  EXPECT_EQ(packed.error().hint,
            "run gunzip --keep " + (dir_ / "t").string() + " and name its output");
}

TEST_F(RouteTraces, MissingFilesAndDirectoriesAreRefused) {
  const auto missing = ReadRouteTrace((dir_ / "none").string(), {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  const auto folder = ReadRouteTrace(dir_.path().string(), {});
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message, dir_.path().string() + ": expected a trace, found a directory");
}

}  // namespace
}  // namespace moepack
