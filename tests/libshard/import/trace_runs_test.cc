#include <gmock/gmock.h>

#include "tests/libshard/import/trace_files.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;

class TraceRuns : public TraceFiles {};

// A prompt of two tokens in layers 0 and 1 (in the last layer only its last token), then two
// tokens.
constexpr std::string_view kPairs =
    "0,3\n0,1\n0,3\n0,2\n1,0\n1,1\n"
    "0,1\n0,2\n1,0\n1,3\n"
    "0,2\n0,0\n1,2\n1,1\n";

TEST_F(TraceRuns, FindsTokensByTheOrderOfLayers) {
  const RouteTrace trace = MustRead(kPairs);
  EXPECT_EQ(trace.format, "layer,expert");
  EXPECT_THAT(trace.steps,
              ElementsAre(TraceStep{0, Phase::kPrefill, 0}, TraceStep{0, Phase::kPrefill, 1},
                          TraceStep{0, Phase::kDecode, 2}, TraceStep{0, Phase::kDecode, 3}));
  ASSERT_EQ(trace.layers.size(), 2u);
  EXPECT_EQ(trace.layers[0].shape, (MoeLayerShape{0, 4, 2}));
  EXPECT_THAT(trace.layers[0].expert_ids, ElementsAre(3, 1, 3, 2, 1, 2, 2, 0));
  EXPECT_THAT(trace.layers[1].steps, ElementsAre(1, 2, 3));
  EXPECT_THAT(trace.warnings,
              ElementsAre((dir_ / "t").string() +
                              ": the number of experts is not in the file; 4 is the largest id and "
                              "one",
                          (dir_ / "t").string() +
                              ": the experts per token are not in the file; 2 divides the rows of "
                              "every layer"));
}

TEST_F(TraceRuns, AHeadingAndCommentsAreSkipped) {
  RouteTrace plain = MustRead(kPairs);
  RouteTrace headed = MustRead("layer,expert\n" + std::string(kPairs));
  EXPECT_EQ(plain.layers, headed.layers);
  EXPECT_EQ(plain.steps, headed.steps);
}

TEST_F(TraceRuns, ConcatenatedFilesBecomeTurns) {
  const RouteTrace trace = MustRead(std::string(kPairs) + std::string(kPairs));
  EXPECT_EQ(trace.turns.size(), 2u);
  EXPECT_EQ(trace.steps.size(), 8u);
  EXPECT_EQ(trace.steps[4], (TraceStep{1, Phase::kPrefill, 0}));
}

TEST_F(TraceRuns, TakesExpertsPerTokenFromTheModelOrTheUser) {
  // Read as pairs, this could be one token with four experts.
  const std::string_view text = "0,0\n0,1\n0,2\n0,3\n";
  EXPECT_EQ(MustRead(text).layers[0].shape.top_k, 4u);
  EXPECT_EQ(MustRead(text, {{}, 2}).layers[0].shape.top_k, 2u);
  const RouteTrace trace = MustRead(text, {{{0, 8, 2}}, {}});
  EXPECT_EQ(trace.layers[0].shape, (MoeLayerShape{0, 8, 2}));
  EXPECT_TRUE(trace.warnings.empty());
}

TEST_F(TraceRuns, NoTokenChoosesAnExpertTwice) {
  // Four rows per run, but the third repeats the first: two tokens.
  EXPECT_EQ(MustRead("0,0\n0,1\n0,0\n0,2\n").layers[0].shape.top_k, 2u);
  EXPECT_EQ(MustRead("0,0\n0,0\n0,1\n0,1\n").layers[0].shape.top_k, 1u);
}

TEST_F(TraceRuns, NegativePositionsMarkPrompts) {
  const RouteTrace trace =
      MustRead("-2,0,3,1\n-1,0,2,1\n-1,1,0,3\n0,0,1,2\n0,1,3,2\n1,0,0,1\n1,1,2,0\n");
  EXPECT_EQ(trace.format, "pos,layer,id,...");
  EXPECT_THAT(trace.steps,
              ElementsAre(TraceStep{0, Phase::kPrefill, 0}, TraceStep{0, Phase::kPrefill, 1},
                          TraceStep{0, Phase::kDecode, 2}, TraceStep{0, Phase::kDecode, 3}));
  EXPECT_THAT(trace.layers[0].expert_ids, ElementsAre(3, 1, 2, 1, 1, 2, 0, 1));
  EXPECT_EQ(trace.warnings.size(), 1u);
}

TEST_F(TraceRuns, ErrorsNameTheLine) {
  EXPECT_EQ(Refusal("0,1\n0\n", Code::kCorrupt), "t: line 2: expected 2 columns, found 1");
  EXPECT_EQ(Refusal("0,1\n0,1,2\n", Code::kCorrupt), "t: line 2: expected 2 columns, found 3");
  EXPECT_EQ(Refusal("0,1\nx,1\n", Code::kCorrupt),
            "t: line 2: layer: expected a number, found \"x\"");
  EXPECT_EQ(Refusal("0,1\n0,-1\n", Code::kCorrupt),
            "t: line 2: expert: expected a number, found \"-1\"");
  EXPECT_EQ(Refusal("0,4096\n", Code::kCorrupt),
            "t: line 1: expert: expected a number below 4096, found 4096");
  EXPECT_EQ(Refusal("1,0,1\nx,0,1\n", Code::kCorrupt),
            "t: line 2: position: expected a number, found \"x\"");
  EXPECT_EQ(Refusal("1,0,1,1\n", Code::kCorrupt),
            "t: layer 0: step 0 of turn 0, decode: expected every expert once, found 1 twice");
  EXPECT_EQ(Refusal("layer,expert\n", Code::kCorrupt),
            "t: expected a row for each chosen expert, found none");
}

TEST_F(TraceRuns, AWrongNumberOfExpertsPerTokenIsRefused) {
  EXPECT_EQ(Refusal(kPairs, Code::kCorrupt, {{}, 3}),
            "t: expected 3 rows per token and layer, found 2 in some");
  EXPECT_EQ(Refusal(kPairs, Code::kMismatch, {{{0, 4, 2}}, {}}),
            "t: layer 1: expected no experts, found a choice");
}

}  // namespace
}  // namespace moepack
