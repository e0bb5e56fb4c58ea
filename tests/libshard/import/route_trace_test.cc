#include "libshard/import/route_trace.h"

#include <gmock/gmock.h>

#include "libshard/base/files/memory_tree.h"
#include "libshard/base/files/zstd.h"
#include "tests/libshard/import/imported.h"
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

class TraceWriting : public TraceFiles {
 protected:
  TraceHeader Header() const {
    TraceHeader header;
    header.model = "My Model\n# turn=9";
    header.architecture = "qwen3moe";
    header.layer_count = 4;
    header.layers = {{1, 8, 2}, {3, 4, 2}};
    header.expert_bytes = {100, 200};
    header.turns = {{"a b.txt", "code"}, {"\"c\"", ""}};
    return header;
  }
  std::string path() const { return (dir_ / "t").string(); }
};

TEST_F(TraceWriting, ReadsBackWhatWasWritten) {
  auto writer = TraceWriter::Create(path(), Header());
  ASSERT_TRUE(writer);
  const std::vector<uint32_t> first = {7, 2}, second = {3, 0};
  const std::vector<float> gates = {0.9f, 0.1f};
  writer->Add({0, Phase::kPrefill, 0}, 1, first, gates);
  writer->Add({0, Phase::kPrefill, 0}, 3, second, gates);
  writer->Add({0, Phase::kDecode, 1}, 1, first, gates);
  writer->Add({1, Phase::kPrefill, 0}, 3, second, gates);
  EXPECT_EQ(writer->choices(), 8u);
  EXPECT_FALSE(std::filesystem::exists(path())) << "the file appears only when it is complete";
  ASSERT_TRUE(writer->Finish());

  const auto trace = ReadRouteTrace(path(), {});
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->model, "My_Model\\x0a#_turn=9");
  EXPECT_EQ(trace->turns, Header().turns);
  EXPECT_THAT(trace->steps,
              ElementsAre(TraceStep{0, Phase::kPrefill, 0}, TraceStep{0, Phase::kDecode, 1},
                          TraceStep{1, Phase::kPrefill, 0}));
  ASSERT_EQ(trace->layers.size(), 2u);
  EXPECT_EQ(trace->layers[0].shape, (MoeLayerShape{1, 8, 2}));
  EXPECT_EQ(trace->layers[1].shape, (MoeLayerShape{3, 4, 2}));
  EXPECT_EQ(trace->layers[1].expert_bytes, 200u);
  EXPECT_THAT(trace->layers[0].weights, ElementsAre(0.9f, 0.1f, 0.9f, 0.1f));
}

TEST_F(TraceWriting, ANameOfZstdGetsTheSameTextInFrames) {
  std::vector<std::string> texts;
  std::vector<RouteTrace> traces;
  for (const std::string name : {"t.csv", "t.csv.zst"}) {
    auto writer = TraceWriter::Create((dir_ / name).string(), Header());
    ASSERT_TRUE(writer);
    for (uint32_t step = 0; step < 50'000; ++step)  // some frames
      writer->Add({0, Phase::kPrefill, step}, 1, std::vector<uint32_t>{step % 8, (step + 1) % 8},
                  std::vector<float>{0.75f, 0.25f});
    ASSERT_TRUE(writer->Finish());
    const std::string bytes = fixtures::ReadFile(dir_ / name);
    EXPECT_EQ(IsZstd(bytes), name == "t.csv.zst");
    texts.push_back(TextHead(MemorySource(name, bytes), SIZE_MAX).value());
    auto trace = ReadRouteTrace((dir_ / name).string(), {});
    ASSERT_TRUE(trace) << trace.error().message;
    traces.push_back(*std::move(trace));
  }
  EXPECT_GT(texts[0].size(), 2 * kTextPiece);
  EXPECT_TRUE(texts[0] == texts[1]);
  EXPECT_EQ(traces[0].digest, traces[1].digest);
  EXPECT_TRUE(traces[0].layers == traces[1].layers);
}

TEST_F(TraceWriting, WritesTheNineColumnsOfTheFormat) {
  auto writer = TraceWriter::Create(path(), Header());
  ASSERT_TRUE(writer);
  writer->Add({1, Phase::kDecode, 12}, 3, std::vector<uint32_t>{2}, std::vector<float>{0.5f});
  ASSERT_TRUE(writer->Finish());
  EXPECT_EQ(fixtures::ReadFile(path()),
            "# route_trace v1\n"
            "# model=My_Model\\x0a#_turn=9 arch=qwen3moe n_layer=4 n_expert=8 n_expert_used=2\n"
            "# layer=1 expert_bytes=100 dense_bytes=0 experts=8\n"
            "# layer=3 expert_bytes=200 dense_bytes=0 experts=4\n"
            "# turn=0 {\"session\":\"a b.txt\",\"bucket\":\"code\"}\n"
            "# turn=1 {\"session\":\"\\\"c\\\"\",\"bucket\":\"\"}\n"
            "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes\n"
            "1,1,12,3,0,2,0.5,1,0\n");
}

TEST_F(TraceWriting, LeavesNothingBehindUnlessFinished) {
  { auto writer = TraceWriter::Create(path(), Header()); }
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(TraceWriting, RefusesNamesThatAreNotUtf8) {
  TraceHeader header = Header();
  header.turns[1].bucket = "\xff";
  const auto writer = TraceWriter::Create(path(), header);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().message,
            path() + ": session \"\\\"c\\\"\": expected UTF-8, found other bytes");
}

}  // namespace

}  // namespace moepack
