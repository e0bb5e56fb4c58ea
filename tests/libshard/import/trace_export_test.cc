#include <gmock/gmock.h>

#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "libshard/import/trace_builder.h"
#include "tests/libshard/import/trace_files.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;

class TraceExport : public TraceFiles {};

// Two prompts: one prompt token and one decoded token; two prompt tokens.
constexpr std::string_view kExport = R"({
 "schema": "glm52-routing-trace-export/v2",
 "note": {"layers": {"9": {"executed_topk": [[1]]}}},
 "routing": {"n_expert_per_layer": 4, "k": 2},
 "layers": {
  "3": {"executed_topk": [[3, 1], [2, 1], [0, 1], [3, 2]],
        "executed_scores": [[9.5, -1], [9, 8], [7, 6], [5, 4]]},
  "12": {"executed_topk": [[0, 1], [1, 0], [2, 3], [3, 2]]}
 },
 "conditional": {"prompts": [
  {"category": "code", "start_row": 0, "prefill_rows": 1, "decode_step_rows": 1, "end_row": 2},
  {"category": "math", "start_row": 2, "prefill_rows": 2, "decode_step_rows": 0, "end_row": 4}]}
})";

TEST_F(TraceExport, PromptsBecomeTurns) {
  const RouteTrace trace = MustRead(kExport);
  EXPECT_EQ(trace.format, "glm52-routing-trace-export/v2");
  EXPECT_THAT(trace.turns,
              ElementsAre(TraceTurn{"prompt 0", "code"}, TraceTurn{"prompt 1", "math"}));
  EXPECT_THAT(trace.steps,
              ElementsAre(TraceStep{0, Phase::kPrefill, 0}, TraceStep{0, Phase::kDecode, 1},
                          TraceStep{1, Phase::kPrefill, 0}, TraceStep{1, Phase::kPrefill, 1}));
  ASSERT_EQ(trace.layers.size(), 2u);
  EXPECT_EQ(trace.layers[0].shape, (MoeLayerShape{3, 4, 2}));
  EXPECT_EQ(trace.layers[1].shape.layer, 12u);
  EXPECT_THAT(trace.layers[1].expert_ids, ElementsAre(0, 1, 1, 0, 2, 3, 3, 2));
  EXPECT_FALSE(trace.weighted()) << "selection scores are not gates";
}

TEST_F(TraceExport, AllRowsAreOneTurnWithoutPrompts) {
  const RouteTrace trace = MustRead(R"({"schema": "glm52-routing-trace-export/v2",
    "layers": {"0": {"executed_topk": [[0], [1]]}}})");
  EXPECT_EQ(trace.turns.size(), 1u);
  EXPECT_EQ(trace.steps.size(), 2u);
  EXPECT_EQ(trace.warnings.size(), 1u);
}

// The source still has the size that it was opened with.
TEST_F(TraceExport, OfAFileThatIsCutIsRefused) {
  const auto path = dir_ / "t";
  const std::string padding(1u << 20, ' ');
  ASSERT_TRUE(fixtures::WriteFile(path, Cat(kExport, padding)));
  const auto file = InputFile::Open(path);
  ASSERT_TRUE(file);
  std::filesystem::resize_file(path, kExport.size());
  const auto trace = ReadTraceExport(*file, {});
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, Code::kCorrupt);
  EXPECT_THAT(trace.error().message, testing::HasSubstr("t: "));
}

TEST_F(TraceExport, OfAFileThatIsWrittenMeanwhileIsRefused) {
  const auto path = dir_ / "t";
  ASSERT_TRUE(fixtures::WriteFile(path, Cat(kExport, " ")));
  const auto file = InputFile::Open(path);
  ASSERT_TRUE(file);
  std::filesystem::resize_file(path, kExport.size());
  std::filesystem::resize_file(path, kExport.size() + 1);
  const auto trace = ReadTraceExport(*file, {});
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, Code::kCorrupt);
}

struct BadExport {
  const char *from, *to, *message;
};

TEST_F(TraceExport, ErrorsNameThePlace) {
  const BadExport cases[] = {
      {"\"12\"", "\"x\"", "t: layers: expected a number, found \"x\""},
      {"\"12\"", "\"70000\"", "t: layers: expected a number, found \"70000\""},
      {"[3, 1], [2", "[3, 5], [2", "t: layer 3: expert: expected a number below 4, found 5"},
      {"[3, 1], [2", "[3, -1], [2",
       "t: layers: \"3\": executed_topk: expected an expert's id, found -1"},
      {"[3, 1], [2", "[3, 4096], [2",
       "t: layers: \"3\": executed_topk: expected an expert's id, found 4096"},
      {"[3, 1], [2", "[3, null], [2",
       "t: layers: \"3\": executed_topk: expected an expert's id, found null"},
      {"[3, 1], [2", "[3, 3], [2",
       "t: layer 3: step 0 of turn 0, prefill: expected every expert once, found 3 twice"},
      {"[0, 1], [1, 0], [2", "[1, 0], [2",
       "t: layers: \"12\": executed_topk: expected 4 rows, found 3"},
      {"\"end_row\": 4", "\"end_row\": 3",
       "t: conditional: prompts: expected rows from 2 to at most 4, found 2 to 3 with 2 of the "
       "prompt"},
      {"\"start_row\": 2", "\"start_row\": 1",
       "t: conditional: prompts: expected rows from 2 to at most 4, found 1 to 4 with 2 of the "
       "prompt"},
      {"\"prefill_rows\": 2", "\"prefill_rows\": 3",
       "t: conditional: prompts: expected rows from 2 to at most 4, found 2 to 4 with 3 of the "
       "prompt"},
      {"\"n_expert_per_layer\": 4", "\"n_expert_per_layer\": 0",
       "t: experts: expected 1 to 4096, found 0"},
  };
  for (const BadExport& bad : cases) {
    std::string text(kExport);
    text.replace(text.find(bad.from), std::string_view(bad.from).size(), bad.to);
    EXPECT_EQ(Refusal(text, Code::kCorrupt), bad.message);
  }
}

TEST_F(TraceExport, AnotherVersionIsNotSupported) {
  std::string text(kExport);
  text.replace(text.find("/v2"), 3, "/v3");
  EXPECT_EQ(Refusal(text, Code::kUnsupported),
            "t: schema: expected \"glm52-routing-trace-export/v2\", found "
            "\"glm52-routing-trace-export/v3\"");
}

}  // namespace
}  // namespace moepack
