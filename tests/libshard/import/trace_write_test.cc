#include "libshard/import/trace_write.h"

#include <gmock/gmock.h>

#include "libshard/base/files/memory_tree.h"
#include "libshard/base/files/zstd.h"
#include "tests/libshard/import/trace_files.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;

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
