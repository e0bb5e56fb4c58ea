#include "tests/libshard/import/imported.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string HotCache(const std::string& members) {
  return R"({"schema": "llama.cpp.moe_layer_opt_perf.v1", )" + members + "}";
}

TEST(HotCache, EveryFormGivesTheCountsOfTheProfile) {
  for (const char* name :
       {"hot-cache-initial.json", "hot-cache-runtime.json", "hot-cache-old.json"}) {
    const ExpertScores scores = Imported(name, ForTiny());
    EXPECT_EQ(scores.basis, ScoreBasis::kCount) << name;
    EXPECT_EQ(SumOfScores(scores), ProfiledCounts()) << name;
  }
  EXPECT_THAT(Imported("hot-cache-initial.json").warnings, IsEmpty());
}

TEST(HotCache, IdsBeyondTheLayerAreDroppedWithAWarning) {
  const ExpertScores scores = Imported("hot-cache-runtime.json", ForTiny());
  EXPECT_THAT(scores.warnings,
              ElementsAre(StatisticsFixture("hot-cache-runtime.json") +
                          ": repaired: 3 ids beyond the experts of the layer dropped, with 1.3 % "
                          "of the counts"));
}

TEST(HotCache, HotAndColdCountsTakePrecedenceOverExperts) {
  const ExpertScores scores = ImportedBytes(HotCache(
      R"("n_expert": 3, "layers": [{"layer": 0, "experts": [[0, 9]],
         "hot_experts": [[1, 5]], "cold_experts": [[1, 2], [2, 4], [2, 1], [0, 0]]}])"));
  EXPECT_THAT(scores.sessions.at(0).scores, ElementsAre(0, 7, 5));
}

TEST(HotCache, TheModelSaysHowManyExpertsThereAre) {
  ImportOptions options;
  options.model = {{4, 3, 1}};
  const ExpertScores scores =
      ImportedBytes(HotCache(R"("layers": [{"layer": 4, "experts": [[2, 9]]}])"), options);
  EXPECT_THAT(scores.sessions.at(0).scores, ElementsAre(0, 0, 9));
}

TEST(HotCache, ADisabledMeasurementHoldsNothing) {
  const Error error = ImportError(FixtureBytes("hot-cache-disabled.json"));
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.message,
            "in: layers: expected at least one, found none, because the measurement was switched "
            "off");
}

TEST(HotCache, NamesTheFieldThatContradictsTheFormat) {
  EXPECT_EQ(ImportError(HotCache(R"("n_expert": 2, "layers": [{"experts": []}])")).message,
            "in: layers: layer: expected a whole number, found nothing");
  EXPECT_EQ(ImportError(HotCache(R"("n_expert": 2, "layers": [7])")).message,
            "in: layers: expected objects, found 7");
  EXPECT_EQ(
      ImportError(HotCache(R"("n_expert": 2, "layers": [{"layer": 1, "experts": [[0]]}])")).message,
      "in: layer 1: experts: expected pairs of id and count, found an array of 1 value");
  EXPECT_EQ(
      ImportError(HotCache(R"("n_expert": 2, "layers": [{"layer": 1, "experts": [[0, -1]]}])"))
          .message,
      "in: layer 1: experts: expected pairs of id and count, found an array of 2 values");
  EXPECT_EQ(ImportError(HotCache(R"("layers": [{"layer": 1, "experts": [[0, 1]]}])")).message,
            "in: n_expert: expected 1 to 4096, found 0");
  EXPECT_EQ(ImportError(R"({"schema": "llama.cpp.moe_layer_v9", "hot_experts": []})").message,
            "in: schema: expected llama.cpp.moe_layer_opt_perf.v1 or llama.cpp.moe_layer_perf.v1, "
            "found \"llama.cpp.moe_layer_v9\"");
}

TEST(HotCache, RefusesAnotherNumberOfExperts) {
  ImportOptions options;
  options.model = {{1, 4, 1}};
  for (const char* stated : {"2", "8"}) {
    const Error error = ImportError(HotCache("\"n_expert\": " + std::string(stated) +
                                             R"(, "layers": [{"layer": 1, "experts": [[0, 1]]}])"),
                                    options);
    EXPECT_EQ(error.code, Code::kMismatch);
    EXPECT_EQ(error.message, std::string("in: n_expert: expected 4, found ") + stated);
  }
}

TEST(HotCache, RefusesADuplicateLayer) {
  EXPECT_EQ(ImportError(HotCache(R"("n_expert": 2, "layers": [{"layer": 1, "experts": [[0, 1]]},
                                    {"layer": 1, "experts": [[0, 1]]}])"))
                .message,
            "in: layer 1: expected once, found twice");
}

TEST(HotCache, ALayerWithoutCountsIsRefused) {
  EXPECT_EQ(
      ImportError(HotCache(R"("n_expert": 2, "layers": [{"layer": 1, "experts": []}])")).message,
      "in: layer 1: expected an expert with a score above 0, found none");
}

}  // namespace
}  // namespace moepack
