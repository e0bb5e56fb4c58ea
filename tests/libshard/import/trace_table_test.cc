#include <gmock/gmock.h>

#include "tests/libshard/import/trace_files.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TraceTable : public TraceFiles {};

// Layer by layer within the prompt, token by token afterwards, as BigMoeOnEdge writes it. The last
// layer runs only the last token of the prompt.
constexpr std::string_view kTable =
    "# route_trace v1\n"
    "# model=/m/a b.gguf arch=qwen3moe n_layer=3 n_expert=4 n_expert_used=2\n"
    "# layer=1 expert_bytes=100 dense_bytes=7\n"
    "# layer=2 expert_bytes=200 dense_bytes=7\n"
    "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes,dropped\n"
    "0,0,0,1,0,3,0.75,0,100,0\n"
    "0,0,0,1,1,1,0.25,0,100,0\n"
    "0,0,1,1,0,0,0.5,0,100,0\n"
    "0,0,1,1,1,1,0.5,1,0,0\n"
    "0,0,1,2,0,2,1,0,200,0\n"
    "0,1,2,1,0,1,0.5,1,0,0\n"
    "0,1,2,1,1,0,0.5,1,0,0\n"
    "0,1,2,2,0,0,0.5,0,200,0\n"
    "0,1,2,2,1,3,0.5,0,200,0\n";

TEST_F(TraceTable, IsReadByTheNamesOfItsColumns) {
  const RouteTrace trace = MustRead(kTable);
  EXPECT_EQ(trace.format, "route_trace v1");
  EXPECT_EQ(trace.model, "/m/a b.gguf");
  EXPECT_EQ(trace.digest.size(), 32u);
  EXPECT_THAT(trace.steps,
              ElementsAre(TraceStep{0, Phase::kPrefill, 0}, TraceStep{0, Phase::kPrefill, 1},
                          TraceStep{0, Phase::kDecode, 2}));
  ASSERT_EQ(trace.layers.size(), 2u);
  EXPECT_EQ(trace.layers[0].shape, (MoeLayerShape{1, 4, 2}));
  EXPECT_EQ(trace.layers[0].expert_bytes, 100u);
  EXPECT_THAT(trace.layers[0].steps, ElementsAre(0, 1, 2));
  EXPECT_THAT(ChosenIn(trace.layers[0], 0), ElementsAre(3, 1));
  EXPECT_THAT(ChosenIn(trace.layers[0], 2), ElementsAre(1, 0));
  EXPECT_THAT(trace.layers[0].weights, ElementsAre(0.75f, 0.25f, 0.5f, 0.5f, 0.5f, 0.5f));
  EXPECT_EQ(trace.layers[1].shape, (MoeLayerShape{2, 4, 2}));
  EXPECT_THAT(trace.layers[1].steps, ElementsAre(1, 2));
  EXPECT_THAT(ChosenIn(trace.layers[1], 0), ElementsAre(2));
  EXPECT_TRUE(trace.weighted());
  EXPECT_TRUE(trace.warnings.empty());
}

TEST_F(TraceTable, ColumnsMayBeInAnyOrderAndSomeMayBeMissing) {
  const RouteTrace trace = MustRead(
      "# route_trace v1\n# model=m arch=a n_layer=1 n_expert=2 n_expert_used=1\n"
      "expert,new,turn,phase,step,layer\r\n1,x,0,1,5,0\r\n0,y,0,1,6,0");
  EXPECT_THAT(trace.layers[0].expert_ids, ElementsAre(1, 0));
  EXPECT_THAT(trace.steps,
              ElementsAre(TraceStep{0, Phase::kDecode, 5}, TraceStep{0, Phase::kDecode, 6}));
  EXPECT_FALSE(trace.weighted());
}

TEST_F(TraceTable, AMissingWeightIsNotZero) {
  std::string text(kTable);
  text.replace(text.find("0.75"), 4, "nan");
  EXPECT_FALSE(MustRead(text).weighted());
}

TEST_F(TraceTable, ReadsNamedTurnsAndConcatenatedFiles) {
  const std::string one =
      "# route_trace v1\n# model=m arch=a n_layer=1 n_expert=2 n_expert_used=1\n"
      "# turn=0 {\"session\":\"a b\",\"bucket\":\"code\"}\n"
      "turn,phase,step,layer,slot,expert,weight\n0,0,0,0,0,1,1\n7,0,0,0,0,0,1\n";
  const RouteTrace trace = MustRead(one + one);
  EXPECT_THAT(trace.turns, ElementsAre(TraceTurn{"a b", "code"}, TraceTurn{},
                                       TraceTurn{"a b", "code"}, TraceTurn{}));
  EXPECT_THAT(trace.layers[0].expert_ids, ElementsAre(1, 0, 1, 0));
  EXPECT_EQ(trace.steps.back().turn, 3u);
}

TEST_F(TraceTable, ALayerMayHaveItsOwnNumberOfExperts) {
  const RouteTrace trace = MustRead(
      "# route_trace v1\n# model=m arch=a n_layer=2 n_expert=8 n_expert_used=1\n"
      "# layer=1 expert_bytes=0 dense_bytes=0 experts=2\n"
      "turn,phase,step,layer,slot,expert,weight\n0,0,0,0,0,7,1\n0,0,0,1,0,1,1\n");
  EXPECT_EQ(trace.layers[0].shape.expert_count, 8u);
  EXPECT_EQ(trace.layers[1].shape.expert_count, 2u);
  EXPECT_FALSE(trace.layers[1].expert_bytes);
}

TEST_F(TraceTable, TheModelDecidesAboutLayersAndExperts) {
  const TraceOptions model{{{1, 4, 2}, {2, 4, 2}}, {}};
  EXPECT_EQ(MustRead(kTable, model).layers.size(), 2u);
  EXPECT_EQ(Refusal(kTable, Code::kMismatch, {{{1, 4, 2}}, {}}),
            "t: line 4: layer 2: expected no experts, found a choice");
  EXPECT_EQ(Refusal(kTable, Code::kMismatch, {{{1, 3, 2}, {2, 4, 2}}, {}}),
            "t: line 6: layer 1: expert: expected a number below 3, found 3");
  EXPECT_EQ(Refusal(kTable, Code::kMismatch, {{{1, 8, 2}, {2, 8, 2}}, {}}),
            "t: layer 1: experts: expected 8, found 4");
}

TEST_F(TraceTable, AFileThatIsCutInTheMiddleOfAStepIsAWarning) {
  const std::string whole =
      "# route_trace v1\n# model=m arch=a n_layer=2 n_expert=4 n_expert_used=1\n"
      "turn,phase,step,layer,slot,expert,weight\n0,0,0,0,0,3,1\n0,1,1,0,0,1,1\n0,1,1,1,0,0,1\n"
      "0,1,2,0,0,1,1\n0,1,2,1,0,2,1\n0,1,3,0,0,1,1\n0,1,3,1,0,2,1\n";
  EXPECT_THAT(MustRead(whole).warnings, IsEmpty());
  const std::string cut = whole.substr(0, whole.rfind("0,1,3,1"));
  EXPECT_THAT(MustRead(cut).warnings,
              ElementsAre(HasSubstr("step 3 of turn 0, decode: expected 2 choices as in the other "
                                    "steps, found 1: the end of the file may be missing")));
}

struct BadTable {
  const char *from, *to, *message;
};

TEST_F(TraceTable, ErrorsNameTheLine) {
  const BadTable cases[] = {
      {"v1", "v2", ""},
      {"n_expert=4", "n_expert=0", "t: line 2: experts: expected 1 to 4096, found 0"},
      {"n_expert=4", "n_expert=x", "t: line 2: expected a number after n_expert=, found \"x\""},
      {"n_expert=4", "n_expert=3",
       "t: line 6: layer 1: expert: expected a number below 3, found 3"},
      {"layer=1 ", "layer=one ",
       "t: line 3: expected a number after layer=, found \"# layer=one expert_bytes=100 "
       "dense_bytes=7\""},
      {"expert_bytes=100 d", "expert_bytes=-1 d",
       "t: line 3: expected a number after expert_bytes=, found \"-1\""},
      {"phase,step", "phase,stop",
       "t: line 5: expected a column \"step\", found "
       "\"turn,phase,stop,layer,slot,expert,weight,residency,expert_bytes,dropped\""},
      {"0,0,0,1,0,3,0.75,0,100,0", "0,0,0,1,0,3", "t: line 6: expected 10 columns, found 6"},
      {"0,0,0,1,0,3", "0,2,0,1,0,3",
       "t: line 6: phase: expected a number of at most 1, found \"2\""},
      {"0,0,0,1,0,3", "0,0,0,1,0,-3",
       "t: line 6: expert: expected a number of at most 4294967295, found \"-3\""},
      {"0.75", "inf", "t: line 6: weight: expected a finite number, not negative, found inf"},
      {"0.75", "-1", "t: line 6: weight: expected a finite number, not negative, found -1"},
      {"0.75", "1.5x", "t: line 6: weight: expected a number, found \"1.5x\""},
      {"0,0,0,1,1,1", "0,0,0,1,1,3",
       "t: line 7: layer 1: step 0 of turn 0, prefill: expected every expert once, found 3 twice"},
      {"0,1,2,1,0,1", "0,0,0,1,0,1",
       "t: line 11: layer 1: expected no step before step 1 of turn 0, prefill, found step 0 of "
       "turn 0, prefill"},
      {"0,0,0,1,0,3", "4294967295,0,0,1,0,3",
       "t: line 6: turn: expected a number of at most 2147483647, found \"4294967295\""},
      {"0,0,0,1,0,3", "0,0,0,65536,0,3",
       "t: line 6: layer: expected a number below 65536, found 65536"},
      {"# layer=2", "# turn=2",
       "t: line 4: expected turn=N and an object, found \"# turn=2 expert_bytes=200 "
       "dense_bytes=7\""},
  };
  for (const BadTable& bad : cases) {
    std::string text(kTable);
    text.replace(text.find(bad.from), std::string_view(bad.from).size(), bad.to);
    const bool version = std::string_view(bad.from) == "v1";
    const std::string expected =
        version ? "t: line 1: expected route_trace v1, found \"# route_trace v2\"" : bad.message;
    EXPECT_EQ(Refusal(text, version ? Code::kUnsupported : Code::kCorrupt), expected);
  }
}

TEST_F(TraceTable, WithoutRowsOrNamesIsRefused) {
  EXPECT_EQ(Refusal("# route_trace v1\nturn,phase,step,layer,expert\n", Code::kCorrupt),
            "t: expected a row for each chosen expert, found none");
  EXPECT_EQ(Refusal("# route_trace v1\n0,0,0,0,1\n", Code::kCorrupt),
            "t: line 2: expected the names of the columns first, found \"0,0,0,0,1\"");
  EXPECT_EQ(Refusal("# route_trace v1\n" + std::string(70'000, '1'), Code::kCorrupt),
            "t: line 2: expected at most 65536 bytes, found more");
}

}  // namespace
}  // namespace moepack
